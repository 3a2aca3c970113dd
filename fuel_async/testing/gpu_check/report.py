"""What a check found, section by section: figures, faults, and what was left out; as a table, and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Faults of a section that the table shows.
SHOWN = 5


@dataclass(slots=True)
class Section:
    """One part of a check."""

    name: str
    #: Numbers and words by name; a name says its unit.
    figures: dict[str, Any] = field(default_factory=dict)
    #: What is wrong.
    faults: list[str] = field(default_factory=list)
    #: What was not looked at, and why.
    left_out: list[str] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    def demand(self, holds: bool, what: str) -> None:
        """Note what is wrong unless it holds."""
        if not holds:
            self.faults.append(what)


@dataclass(slots=True)
class Report:
    """All parts."""

    facts: Mapping[str, Any]
    sections: list[Section] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong anywhere."""
        return all(section.is_good for section in self.sections)

    def json(self) -> str:
        """Return it as JSON."""
        sections = [{"is_good": section.is_good, **asdict(section)} for section in self.sections]
        return json.dumps({"facts": dict(self.facts), "is_good": self.is_good, "sections": sections}, indent=1)

    def table(self) -> str:
        """Return a short table, one line a figure."""
        lines = [f"{name}: {value}" for name, value in self.facts.items()]
        for section in self.sections:
            lines.append(f"\n{section.name}: {'good' if section.is_good else 'FAULTS'}, {section.took_s:.1f} s")
            lines += [f"  {name:<34} {_shown(value)}" for name, value in section.figures.items()]
            lines += [f"  fault: {fault}" for fault in section.faults[:SHOWN]]
            if len(section.faults) > SHOWN:
                lines.append(f"  and {len(section.faults) - SHOWN} more faults")
            lines += [f"  left out: {what}" for what in section.left_out]
        return "\n".join([*lines, "", "all is good" if self.is_good else "there are faults"])


def _shown(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
