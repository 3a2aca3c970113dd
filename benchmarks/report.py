"""What a benchmark hands back, and how it is shown: figures beside their targets, as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console

#: By name; a dot stands between a family of figures and its member. None: could not be measured here.
Figures = Mapping[str, float | None]


class WrongResult(Exception):
    """What was measured computed something else than its reference: no figure is worth anything."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure, or each of a family, should be: at most `max`, at least `min`."""

    max: float | None = None
    min: float | None = None

    def met(self, value: float) -> bool:
        return (self.max is None or value <= self.max) and (self.min is None or value >= self.min)

    def __str__(self) -> str:
        return f"≤ {self.max:,}" if self.max is not None else f"≥ {self.min:,}"

    def as_json(self) -> dict[str, float]:
        return {"max": self.max} if self.max is not None else {"min": self.min or 0.0}


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one benchmark by loop, the judged loop first. Its results have been compared already."""

    name: str
    figures: Mapping[str, Figures]
    targets: Mapping[str, Target]
    #: What the figures were measured with and under.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def judged(self) -> Figures:
        return next(iter(self.figures.values()))

    def target(self, figure: str) -> Target | None:
        return self.targets.get(figure) or self.targets.get(figure.partition(".")[0])

    @property
    def missed(self) -> list[str]:
        """The judged figures that exist and are not what they should be."""
        judged = ((name, value, self.target(name)) for name, value in self.judged.items())
        return [name for name, value, target in judged if target and value is not None and not target.met(value)]

    def as_json(self) -> str:
        """One line: the judged loop's figures at the top, those of the other loops under their names."""
        first, *others = self.figures
        whole = {
            "benchmark": self.name,
            "checked": True,
            "met": not self.missed,
            "missed": self.missed,
            **_nested(self.figures[first]),
            **{loop: _nested(self.figures[loop]) for loop in others},
            "targets": {name: target.as_json() for name, target in self.targets.items()},
            "facts": {**_machine(), "loop": first, **self.facts},
        }
        return json.dumps(whole)

    def show(self, console: Console) -> None:
        """Print the table."""
        note = "results checked" + (", figures of a quick look mean nothing" if self.facts.get("quick") else "")
        console.print(f"{self.name}: {note}", style="bold", highlight=False)
        table = Table()
        table.add_column("figure", no_wrap=True)
        for loop in self.figures:
            table.add_column(loop, justify="right", no_wrap=True)
        table.add_column("target", justify="right", no_wrap=True)
        table.add_column("")
        for name in self.judged:
            target, missed = self.target(name), name in self.missed
            values = [_shown(figures.get(name)) for figures in self.figures.values()]
            verdict = "" if target is None or self.judged[name] is None else "missed" if missed else "met"
            table.add_row(name, *values, str(target or ""), verdict, style="red" if missed else "" if target else "dim")
        console.print(table)
        facts = {**_machine(), **self.facts}
        console.print(", ".join(f"{name} {value}" for name, value in facts.items()), style="dim", soft_wrap=True)
        if facts.get("disturbed_rounds", 0) > facts.get("rounds", 0) / 4:
            console.print("others used this machine meanwhile: repeat it in a quieter moment", style="yellow")


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _nested(figures: Figures) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in figures.items():
        family, _, member = name.partition(".")
        rounded = None if value is None else float(f"{value:.5g}")
        if member:
            nested.setdefault(family, {})[member] = rounded
        else:
            nested[family] = rounded
    return nested


def _machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
