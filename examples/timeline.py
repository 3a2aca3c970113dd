"""What devices and links did, as a picture: an SVG with a row for each lane, and devices that write down what they do.

    spans = []
    executor = fa.Executor([Recorded(device, spans, lambda program: "a run") for device in machine.devices])
    ...
    Path("timeline.svg").write_text(picture("One second", rows, kinds, spans), encoding="utf-8")

Nothing of this is needed to run graphs. A `Recorded` device is the device itself with a note for each submission.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from fuel_async.runtime import Row, Span, joined, step_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import fuel_async as fa

# Pixels.
WIDTH, MARGIN, LABELS, BEHIND, HEAD, FOOT = 1280, 16, 120, 64, 84, 46
MARKS = 10
FONT = "font-family='Helvetica, Arial, sans-serif'"


# --- devices that write down what they do -----------------------------------------------------------------------------


class Recorded:
    """A device, or a lane of one, that appends a span for each program and each copy when it has settled.

    `kind(program)` names a program's kind; copies are of the kind "copy".
    """

    def __init__(self, of: Any, spans: list[Span], kind: Callable[[Any], str]) -> None:
        self._of, self._spans, self._kind = of, spans, kind
        self._lanes: dict[int, Recorded] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    @property
    def lanes(self) -> Sequence[Any]:
        """The device's lanes, recorded as well."""
        return [self._lane(lane) for lane in self._of.lanes]

    def copy_lane(self, source: fa.DeviceLocation, destination: fa.DeviceLocation) -> Any:
        """The device's lane for such copies, recorded as well."""
        lane = self._of.copy_lane(source, destination)
        return None if lane is None else self._lane(lane)

    def submit(self, instance: Any, *given: Any, **options: Any) -> fa.CompletionHandle:
        """Submit a program to the lane."""
        return self._note(self._kind(instance.program), self._of.submit(instance, *given, **options))

    def submit_copy(self, *given: Any) -> fa.CompletionHandle:
        """Submit a copy to the lane."""
        return self._note("copy", self._of.submit_copy(*given))

    def _lane(self, lane: Any) -> Recorded:
        return self._lanes.setdefault(id(lane), Recorded(lane, self._spans, self._kind))

    def _note(self, kind: str, handle: fa.CompletionHandle) -> fa.CompletionHandle:
        def settled(handle: fa.CompletionHandle) -> None:
            if handle.exception() is None:
                timing = handle.result()
                self._spans.append(Span(timing.lane, kind, timing.started_ns, timing.finished_ns))

        handle.add_done_callback(settled)
        return handle


# --- the picture ------------------------------------------------------------------------------------------------------


def picture(
    title: str,
    rows: Sequence[Row],
    kinds: Mapping[str, tuple[str, str]],
    spans: Sequence[Span],
    marks: Mapping[str, int] | None = None,
) -> str:
    """Return an SVG: time from left to right in ms, `rows` from top to bottom, `kinds` by colour and name.

    `marks` are moments with a name, each a line through all rows. Spans of other rows and kinds are left out.
    """
    end_ns = max([span.end_ns for span in spans], default=1)
    height = HEAD + sum(row.height + 6 for row in rows) + FOOT
    scale = (WIDTH - LABELS - 2 * MARGIN - BEHIND) / end_ns

    def x(at_ns: float) -> float:
        return MARGIN + LABELS + at_ns * scale

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
        f"viewBox='0 0 {WIDTH} {height}' {FONT} font-size='12'>",
        f"<rect width='{WIDTH}' height='{height}' fill='#ffffff'/>",
        _text(MARGIN, 26, title, "font-size='17' font-weight='bold'"),
        *_legend(kinds),
        *_axis(end_ns, x, height),
    ]
    top = HEAD
    for row in rows:
        middle = top + row.height / 2 + 4
        parts.append(
            f"<rect x='{x(0):.1f}' y='{top}' width='{end_ns * scale:.1f}' height='{row.height}' fill='#f3f4f6'/>"
        )
        parts.append(_text(MARGIN + LABELS - 8, middle, row.label, "text-anchor='end'"))
        parts.append(_text(x(end_ns) + 6, middle, row.note, "fill='#4b5563' font-size='11'"))
        for start_ns, stop_ns, kind in joined([span for span in spans if span.row == row.row], 0.4 / scale):
            if kind in kinds:
                width = max((stop_ns - start_ns) * scale, 0.4)
                parts.append(
                    f"<rect x='{x(start_ns):.2f}' y='{top}' width='{width:.2f}' height='{row.height}' "
                    f"fill='{kinds[kind][0]}'/>"
                )
        top += row.height + 6
    for name, at_ns in (marks or {}).items():
        line = f"x1='{x(at_ns):.1f}' x2='{x(at_ns):.1f}' y1='{HEAD - 8}' y2='{top}'"
        parts.append(f"<line {line} stroke='#111827' stroke-dasharray='4 3'/>")
        parts.append(_text(x(at_ns) + 4, HEAD - 10, name, "font-size='11'"))
    return "\n".join([*parts, "</svg>", ""])


def _legend(kinds: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    left = MARGIN + LABELS
    for colour, name in kinds.values():
        yield f"<rect x='{left}' y='40' width='14' height='14' fill='{colour}'/>"
        yield _text(left + 20, 52, name)
        left += 36 + 7 * len(name)


def _axis(end_ns: int, x: Callable[[float], float], height: int) -> Iterator[str]:
    step = step_ms(end_ns, MARKS)
    for number in range(int(end_ns / 1e6 / step) + 1):
        at = x(number * step * 1e6)
        yield f"<line x1='{at:.1f}' x2='{at:.1f}' y1='{HEAD - 4}' y2='{height - FOOT + 4}' stroke='#d1d5db'/>"
        yield _text(at, height - FOOT + 18, f"{number * step:g}", "text-anchor='middle'")
    yield _text(x(end_ns / 2), height - 10, "simulated time, ms", "text-anchor='middle'")


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"
