"""What modules depend on: the numbers they are given, and forms as keys."""

from __future__ import annotations

import pytest

from fuel_async.backends.grids.form import Access, ModuleForm, numbers_given, words_of
from fuel_async.ir import Const, DType, Input, OpKind, Prim, apply, steps, tree


@pytest.mark.parametrize("dtype", [DType.I8, DType.I16, DType.U8, DType.I64, DType.U32], ids=str)
def test_integers_of_all_widths_are_given_with_their_sign(dtype: DType) -> None:
    low = 0 if not dtype.is_signed_int else -3
    _, words = numbers_given(steps(apply(Prim.ADD, Input(0, dtype), Const(low, dtype))))
    wanted = low % 2 ** (64 if dtype is DType.I64 else 32)
    assert sum(word << 32 * place for place, word in enumerate(words)) == wanted


def test_equal_forms_are_one_key_and_others_are_not() -> None:
    def form(access: Access, rank: int = 0, baked: tuple[int, ...] = ()) -> ModuleForm:
        return ModuleForm(steps(tree(OpKind.ExpElementwise, (DType.F32,) * 2)), ((DType.F32, access),), rank, baked)

    first = form(Access.DENSE)
    assert (first, hash(first)) == (form(Access.DENSE), hash(form(Access.DENSE)))
    others = {form(Access.ONE), form(Access.STRIDED, 2), form(Access.STRIDED, 3), form(Access.DENSE, baked=(3, 0, 0))}
    assert len({first, *others}) == 5


def test_words_are_counted_by_what_is_strided_and_given() -> None:
    found, words = numbers_given(steps(apply(Prim.MUL, Input(0, DType.F64), Const(2.5, DType.F64))))
    assert len(words) == 2
    assert words_of(ModuleForm(found, ((DType.F64, Access.DENSE),))) == 3 + 2
    assert words_of(ModuleForm(found, ((DType.F64, Access.STRIDED),), 3)) == 3 + 2 + 3 + 2
