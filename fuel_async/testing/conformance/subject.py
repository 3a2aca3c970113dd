"""Who is judged, and what comes of it: the subject, the verdict on one case, and the report on many."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from fuel_async.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fuel_async.backends import Device
    from fuel_async.ir import DeviceLocation
    from fuel_async.testing.conformance.cases import ConformanceCase


@dataclass(frozen=True, slots=True)
class Subject:
    """Devices whose kernels are judged: the executor of the cases is opened over them and nothing else.

    The keys of `unsupported` and `expected_failures` are ids of cases, beginnings of ids up to a slash, or patterns
    with `*`; the values are reasons and must not be empty. What is unsupported is not run. An expected failure is run,
    and reported when it passes. `tags` are words that tell subjects apart where tests are selected. Without devices a
    subject says what its cases are, and cannot run them.
    """

    name: str
    devices: Sequence[DeviceLocation | str | Device] = ()
    tags: frozenset[str] = frozenset()
    unsupported: Mapping[str, str] = field(default_factory=dict)
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for pattern, reason in (*self.unsupported.items(), *self.expected_failures.items()):
            if not reason.strip():
                raise UserError(f"subject {self.name!r} gives no reason for {pattern!r}; say why it is so")

    def why_unsupported(self, case: ConformanceCase) -> str | None:
        """Return the reason not to run a case; None for one that is run."""
        return _reason(self.unsupported, case.id)

    def why_expected_to_fail(self, case: ConformanceCase) -> str | None:
        """Return the reason why a case fails; None for one that must pass."""
        return _reason(self.expected_failures, case.id)


def _reason(patterns: Mapping[str, str], name: str) -> str | None:
    for pattern, reason in patterns.items():
        if name == pattern or name.startswith(f"{pattern}/") or fnmatchcase(name, pattern):
            return reason
    return None


class Outcome(Enum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    FAILED_AS_EXPECTED = "failed as expected"
    PASSED_UNEXPECTEDLY = "passed unexpectedly"

    @property
    def is_good(self) -> bool:
        """Whether nobody has to look at it."""
        return self not in (Outcome.FAILED, Outcome.PASSED_UNEXPECTEDLY)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one case, and why: what differs, or the reason that the subject gives; empty when it passed."""

    case: ConformanceCase
    outcome: Outcome
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome.value}: {self.case.id}" + (f": {self.why}" if self.why else "")


@dataclass(frozen=True, slots=True)
class Report:
    """Verdicts on many cases."""

    subject: str
    verdicts: tuple[Verdict, ...]

    @property
    def is_good(self) -> bool:
        """Whether every case passed, is unsupported, or failed as expected."""
        return all(verdict.outcome.is_good for verdict in self.verdicts)

    @property
    def faults(self) -> tuple[Verdict, ...]:
        """What somebody has to look at."""
        return tuple([verdict for verdict in self.verdicts if not verdict.outcome.is_good])

    def __str__(self) -> str:
        counts = Counter(verdict.outcome for verdict in self.verdicts)
        summary = ", ".join(f"{counts[outcome]:,} {outcome.value}" for outcome in Outcome if counts[outcome])
        return "\n".join([f"{self.subject}: {summary or 'no cases'}", *map(str, self.faults)])
