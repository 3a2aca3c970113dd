"""What lanes and links do over time, and its picture in text: a row for each, time from left to right.

    spans = [Span("cpu:0", "1", 0, 4_000_000), Span("cpu:0", "2", 4_000_000, 9_000_000)]
    for line in text_picture([Row("cpu:0", "host")], spans, width=72):
        print(line)

Pure: what is drawn are spans, whoever noted or predicted them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Narrowest field of time in a text picture, and columns from one mark of its axis to the next, at least.
NARROWEST = 24
MARK_COLUMNS = 12

#: What stands in a column of a text picture that is idle, busy for less than half of its time, or for more.
IDLE, PARTLY, BUSY = " ", ".", "="


class Span(NamedTuple):
    """Work on one lane, from its start to its end."""

    row: str
    kind: str
    start_ns: int
    end_ns: int


class Row(NamedTuple):
    """A lane in the picture: the row of its spans, what stands before and behind it, and its height in pixels."""

    row: str
    label: str
    height: int = 26
    note: str = ""


def steps() -> Iterator[float]:
    """1, 2, 5, 10, ... of a thousandth: between the marks of an axis."""
    power = 1e-3
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def step_ms(end_ns: int, marks: int) -> float:
    """Return the smallest step in ms that gives an axis up to `end_ns` at most so many marks beside 0."""
    return next(step for step in steps() if end_ns / 1e6 / step <= marks)


def joined(spans: Sequence[Span], gap_ns: float) -> Iterator[tuple[int, int, str]]:
    """Iterate over the spans of one row in order as (start, end, kind); what nobody could see apart is one."""
    last: tuple[int, int, str] | None = None
    for span in sorted(spans, key=lambda span: span.start_ns):
        if (
            last is not None
            and span.kind == last[2]
            and span.start_ns - last[1] < gap_ns
            and last[1] - last[0] < gap_ns
        ):
            last = (last[0], span.end_ns, last[2])
            continue
        if last is not None:
            yield last
        last = (span.start_ns, span.end_ns, span.kind)
    if last is not None:
        yield last


def text_picture(rows: Sequence[Row], spans: Sequence[Span], *, width: int, end_ns: int | None = None) -> list[str]:
    """Return the lines of a picture of at most `width` columns: the axis in ms, then a line for each row.

    A span is a box with its kind in it where there is room, [kind=]. A column that is busy for less than half of its
    time shows a dot. Spans of other rows are left out. The picture ends at `end_ns`, else with the last span.
    """
    last_ns = max([1, *[span.end_ns for span in spans]]) if end_ns is None else max(end_ns, 1)
    before = max([len(row.label) for row in rows], default=0)
    behind = max([len(row.note) for row in rows], default=0)
    columns = max(width - before - behind - (4 if behind else 3), NARROWEST)
    drawn = [f"{'ms':>{before}} {_axis(last_ns, columns)}".rstrip()]
    for row in rows:
        cells = _cells([span for span in spans if span.row == row.row], last_ns, columns)
        drawn.append(f"{row.label:<{before}} |{cells}| {row.note}".rstrip())
    return drawn


def _axis(end_ns: int, columns: int) -> str:
    """The marks, each above the column where its time begins; one column stands for the border of the rows."""
    step = step_ms(end_ns, max(columns // MARK_COLUMNS, 1))
    line = ""
    for number in range(int(end_ns / 1e6 / step) + 1):
        at, text = 1 + int(number * step * 1e6 / end_ns * columns), f"{number * step:g}"
        if at + len(text) <= columns + 2:
            line = f"{line:<{at}}{text}"
    return line


def _cells(spans: Sequence[Span], end_ns: int, columns: int) -> str:
    """One row, column by column."""
    scale, busy = columns / end_ns, [0.0] * columns
    for span in spans:
        start, end = span.start_ns * scale, min(span.end_ns * scale, columns)
        for column in range(int(start), min(int(end) + 1, columns)):
            busy[column] += max(min(end, column + 1) - max(start, column), 0)
    cells = [IDLE if not share else PARTLY if share < 0.5 else BUSY for share in busy]
    for span in spans:
        start, end = round(span.start_ns * scale), min(round(span.end_ns * scale), columns)
        if end - start >= len(span.kind) + 2:
            cells[start:end] = f"[{span.kind.center(end - start - 2, BUSY)}]"
    return "".join(cells)
