"""Timelines as text: what stands where, and for how long."""

from __future__ import annotations

import pytest

from fuel_async.runtime import Row, Span, joined, step_ms, text_picture

MS = 1_000_000


def cells(line: str) -> str:
    return line.split("|")[1]


def test_a_box_stands_where_its_time_is_and_names_its_kind() -> None:
    spans = [Span("a", "1", 0, 10 * MS), Span("a", "2", 20 * MS, 40 * MS), Span("b", "x", 30 * MS, 40 * MS)]
    axis, first, second = text_picture([Row("a", "first"), Row("b", "2nd", note="9%")], spans, width=40 + 5 + 2 + 4)
    assert cells(first) == "[===1====]          [========2=========]"
    assert cells(second) == " " * 30 + "[===x====]"
    assert (first[:6], second[:6], second[-4:]) == ("first ", "2nd   ", "| 9%")
    assert axis.index("20") == first.index("|") + 1 + 20
    assert axis.split() == ["ms", "0", "20"]


def test_a_column_that_is_busy_for_a_part_of_its_time_says_how_much() -> None:
    spans = [Span("a", "long name", 0, 2), Span("a", "b", 10, 14), Span("a", "c", 14, 17), Span("a", "d", 24, 31)]
    (_, line) = text_picture([Row("a", "a")], spans, width=4 + 24, end_ns=240)
    assert cells(line) == f".==.{' ' * 20}"


def test_a_picture_ends_where_it_is_told_and_leaves_out_other_rows() -> None:
    spans = [Span("a", "1", 0, 50), Span("elsewhere", "2", 0, 1_000)]
    whole = text_picture([Row("a", "a")], spans, width=44, end_ns=100)[1]
    assert cells(whole) == "[========1=========]" + " " * 20


def test_nothing_at_all_is_an_empty_row() -> None:
    assert cells(text_picture([Row("a", "a")], [], width=30)[1]).strip() == ""
    assert len(text_picture([], [], width=30)) == 1


@pytest.mark.parametrize("width", [60, 80, 110, 120])
def test_no_line_is_wider_than_was_asked(width: int) -> None:
    spans = [Span("a", str(number), number * MS, (number + 1) * MS) for number in range(97)]
    rows = [Row("a", "cpu:0 -> vulkan:10", note="100%"), Row("b", "b", note="<1%")]
    assert max(map(len, text_picture(rows, spans, width=width))) <= width


@pytest.mark.parametrize(
    ("end_ns", "marks", "step"), [(9 * MS, 10, 1), (10 * MS, 5, 2), (49 * MS, 10, 5), (900, 9, 1e-3)]
)
def test_marks_are_as_far_apart_as_people_count(end_ns: int, marks: int, step: float) -> None:
    assert step_ms(end_ns, marks) == step


def test_spans_of_one_kind_are_joined_when_nobody_could_see_them_apart() -> None:
    spans = [Span("a", "run", at, at + 1) for at in range(0, 10, 2)] + [
        Span("a", "copy", 10, 11),
        Span("a", "run", 90, 99),
    ]
    assert list(joined(spans, 20)) == [(0, 9, "run"), (10, 11, "copy"), (90, 99, "run")]
