"""Methods that fold axes or work along one, and functions that make one kernel of several: what they build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import fuel_async as fa
from fuel_async.errors import ShapeMismatch
from fuel_async.ir import DType, Graph, from_text, symbol, to_text
from tests.ir.test_refusals import node

if TYPE_CHECKING:
    from collections.abc import Callable

F32, I64 = DType.F32, DType.I64
N = symbol("n")


def x(g: Graph, *shape: Any, dtype: DType = F32) -> fa.Tensor:
    return g.input(f"x{len(g)}", shape, dtype)


def built(g: Graph) -> list[str]:
    return [op.name for op in g.snapshot().ops if op.name not in ("input", "constant")]


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (lambda g: x(g, "n", 3) % 2, "f32[n, 3]"),
        (lambda g: 2 % x(g, 3), "f32[3]"),
        (lambda g: x(g, 3, dtype=DType.I32) % x(g, 1, dtype=DType.I32), "i32[3]"),
        (lambda g: x(g, "n").affine(2, 1), "f32[n]"),
        (lambda g: x(g, "n").powi(2), "f32[n]"),
        (lambda g: x(g, "n", 3).argmax(), "u32[]"),
        (lambda g: x(g, "n", 3).argmax(keepdims=True), "u32[1, 1]"),
        (lambda g: x(g, "n", 3).argmin(-1), "u32[n]"),
        (lambda g: x(g, "n", 3).argmin(0, keepdims=True), "u32[1, 3]"),
        (lambda g: x(g, 0, 3).argmin(0), None),
        (lambda g: x(g, 0, 3).argmin(1), "u32[0]"),
        (lambda g: x(g, "n", 4, 3).sum_to((4, 1)), "f32[4, 1]"),
        (lambda g: x(g, "n", 4).sum_to(("n", 1)), "f32[n, 1]"),
        (lambda g: x(g, "n", 4).sum_to(()), "f32[]"),
        (lambda g: x(g, 0, 4).sum_to((4,)), "f32[4]"),
        (lambda g: x(g, 0, 4).max_to((4,)), None),
        (lambda g: x(g, 0, 4).max_to((0, 1)), "f32[0, 1]"),
        (lambda g: x(g, "n", 4).max_to((1, 4)), "f32[1, 4]"),
        (lambda g: fa.max_to_backward(x(g, "n", 4), x(g, 4)), "f32[n, 4]"),
        (lambda g: x(g, "n").cumulative_sum(), "f32[n]"),
        (lambda g: x(g, "n", 3).cumulative_sum(-1), "f32[n, 3]"),
        (lambda g: x(g, 2, "n", 3).log_softmax(1), "f32[2, n, 3]"),
        (lambda g: x(g, "n", 3).rms_norm(g.constant([1.0, 2, 3])), "f32[n, 3]"),
        (lambda g: fa.softmax_backward(x(g, "n", 3), x(g, "n", 3)), "f32[n, 3]"),
        (lambda g: fa.softmax_cross_entropy(x(g, "n", 3), x(g, "n", dtype=I64)), "f32[]"),
        (
            lambda g: fa.softmax_cross_entropy(x(g, "n", 3, dtype=DType.F64), x(g, "n", dtype=I64), reduction="none"),
            "f32[n]",
        ),
        (lambda g: fa.linear(x(g, "n", 3), x(g, 3, 4), x(g, 4)), "f32[n, 4]"),
        (lambda g: fa.linear(x(g, 3), x(g, 3, 4), x(g, 4)), "f32[4]"),
        (lambda g: fa.linear(x(g, 5, "n", 3), x(g, 3, 4), x(g, 4)), "f32[5, n, 4]"),
        (lambda g: fa.linear(x(g, 2, 3, dtype=DType.F16), x(g, 3, 4), x(g, 4, dtype=DType.F64)), "f64[2, 4]"),
        (lambda g: fa.rope(x(g, 2, "n", 4), x(g, "n", 4), x(g, "n", 4)), "f32[2, n, 4]"),
        (lambda g: fa.rope(x(g, 2, 3, 4), *(x(g, 3, 4, dtype=DType.F64) for _ in "cs")), "f64[2, 3, 4]"),
    ],
)
def test_types(build: Callable[[Graph], fa.Tensor], wanted: str | None) -> None:
    g = Graph()
    if wanted is None:
        with pytest.raises(ShapeMismatch, match="of nothing"):
            build(g)
    else:
        made = build(g)
        assert str(made.type) == wanted
        g.output("y", made)
        assert to_text(from_text(to_text(g))) == to_text(g)


def test_other_axes_than_the_last_are_swapped_to_the_end() -> None:
    g = Graph()
    source = x(g, 2, 3, 4)
    source.log_softmax()
    source.log_softmax(0)
    assert built(g) == ["log_softmax", "permute", "log_softmax", "permute"]


def test_extremes_of_all_elements_are_looked_for_in_a_row() -> None:
    g = Graph()
    x(g, 2, 3).argmax(keepdims=True)
    assert built(g) == ["reshape", "argmax", "reshape"]


def test_weights_and_biases_follow_the_normalisation() -> None:
    g = Graph()
    x(g, 2, 3).rms_norm(x(g, 3), eps=0.5)
    assert built(g) == ["rms_norm", "mul"]
    assert [attrs.eps for attrs in g.snapshot().attrs if attrs is not None] == [0.5]  # type: ignore[attr-defined]


def test_the_loss_says_how_rows_become_one() -> None:
    g = Graph()
    scores, targets = x(g, 2, 3), x(g, 2, dtype=I64)
    for reduction in ("mean", "sum", "none"):
        fa.softmax_cross_entropy(scores, targets, reduction=reduction, ignore_index=7)
    lines = [line for line in to_text(g).splitlines() if "cross_entropy" in line]
    assert [line.split("reduction=")[1].split(" : ")[0] for line in lines] == [
        f"{reduction} ignore_index=7" for reduction in ("mean", "sum", "none")
    ]
    with pytest.raises(fa.UserError, match="graph text, line 4"):
        from_text(to_text(g).replace("reduction=mean", "reduction=max"))


def test_a_bound_shape_is_checked_again() -> None:
    """what depends on a symbol is refused once the symbol is bound"""
    g = Graph()
    g.output("y", x(g, "n").argmax(0))
    g.output("z", x(g, "n", 4).max_to((4,)))
    with pytest.raises(ShapeMismatch, match="of nothing"):
        g.freeze().bind({"n": 0})
    assert str(g.freeze().bind({"n": 3}).types[-1]) == "f32[4]"


def test_an_axis_of_2_32_elements_can_be_counted() -> None:
    g = Graph()
    assert str(x(g, 2**32).argmax(0).type) == "u32[]"
    assert node(g, "cumsum", x(g, 2, 3), attrs=(1,)) is not None
