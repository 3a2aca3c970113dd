"""The closed set of element types and how two of them promote."""

from __future__ import annotations

import copy
import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

from fuel_async.errors import DTypeMismatch, DTypeParseError
from fuel_async.ir import DType, promote

INTS = [DType.U8, DType.I8, DType.U32, DType.I16, DType.I32, DType.I64]


def test_the_set_has_the_seeds_members_in_the_seeds_order() -> None:
    names = "u8 i8 u32 i16 i32 i64 bf16 f16 f32 f64 f8e4m3 f6e2m3 f6e3m2 f4 f8e8m0 f8e6m2"
    assert " ".join(dtype.as_str() for dtype in DType.ALL) == names
    assert [dtype.code for dtype in DType.ALL] == list(range(16))


def test_sizes_are_the_seeds_and_sub_byte_types_have_bits_only() -> None:
    sizes = {dtype.value: dtype.nbytes for dtype in DType}
    assert sizes == {
        "u8": 1, "i8": 1, "f8e4m3": 1, "f8e8m0": 1, "f8e6m2": 1, "i16": 2, "bf16": 2, "f16": 2,
        "u32": 4, "i32": 4, "f32": 4, "i64": 8, "f64": 8, "f6e2m3": 0, "f6e3m2": 0, "f4": 0,
    }  # fmt: skip
    assert {dtype.value: dtype.bits for dtype in DType if dtype.is_sub_byte} == {
        "f6e2m3": 6, "f6e3m2": 6, "f4": 4,
    }  # fmt: skip


def test_the_first_six_are_integers_and_the_rest_floats() -> None:
    assert [dtype for dtype in DType if dtype.is_int] == INTS
    assert all(dtype.is_float is not dtype.is_int for dtype in DType)
    assert [dtype.value for dtype in DType if dtype.is_signed_int] == ["i8", "i16", "i32", "i64"]


@pytest.mark.parametrize("dtype", DType)
def test_every_name_parses_back_to_its_own_member(dtype: DType) -> None:
    assert DType.parse(dtype.as_str()) is dtype
    assert str(dtype) == dtype.value


@pytest.mark.parametrize("text", ["F32", "float32", "", " f32", "bool"])
def test_parsing_is_exact_and_the_error_lists_what_there_is(text: str) -> None:
    with pytest.raises(DTypeParseError, match="bf16") as caught:
        DType.parse(text)
    assert caught.value.text == text


def test_numpy_forms_go_both_ways_and_have_the_stated_size() -> None:
    for dtype in DType:
        if dtype.np is not None:
            assert DType.from_numpy(dtype.np) is dtype
            assert dtype.np.itemsize == dtype.nbytes
    assert DType.from_numpy("float32") is DType.F32
    assert DType.from_numpy(ml_dtypes.bfloat16) is DType.BF16


def test_bool_counts_as_u8() -> None:
    assert DType.from_numpy(np.bool_) is DType.U8


@pytest.mark.parametrize("foreign", ["uint16", "uint64", "complex64", "U3", ">f4"])
def test_a_numpy_dtype_without_a_member_is_refused(foreign: str) -> None:
    with pytest.raises(DTypeParseError):
        DType.from_numpy(foreign)


def test_types_without_a_numpy_form_refuse_arrays() -> None:
    without = [dtype for dtype in DType if dtype.np is None]
    assert [dtype.value for dtype in without] == ["f6e2m3", "f6e3m2", "f4", "f8e6m2"]
    for dtype in without:
        with pytest.raises(DTypeMismatch, match="cast"):
            dtype.require_np()
    assert DType.F32.require_np() == np.float32


def test_members_stay_singletons_through_pickle_and_copy() -> None:
    for dtype in DType:
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy(dtype) is dtype
        assert {dtype: 1}[pickle.loads(pickle.dumps(dtype))] == 1


def test_promotion_of_integers_is_numpys() -> None:
    for a, b in itertools.product(INTS, repeat=2):
        assert promote(a, b) is DType.from_numpy(np.promote_types(a.require_np(), b.require_np()))


def test_promotion_of_floats_takes_the_wider() -> None:
    expected = {
        (DType.F16, DType.F32): DType.F32,
        (DType.F16, DType.F64): DType.F64,
        (DType.F32, DType.F64): DType.F64,
        (DType.BF16, DType.F32): DType.F32,
        (DType.BF16, DType.F64): DType.F64,
    }
    for (a, b), wide in expected.items():
        assert promote(a, b) is promote(b, a) is wide


def test_every_pair_promotes_symmetrically_or_not_at_all() -> None:
    for a, b in itertools.product(DType, repeat=2):
        if a is b:
            assert promote(a, b) is a
            continue
        try:
            assert promote(a, b) is promote(b, a)
        except DTypeMismatch:
            with pytest.raises(DTypeMismatch, match="astype"):
                promote(b, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [(DType.F16, DType.BF16), (DType.I32, DType.F32), (DType.U8, DType.F64), (DType.F8E4M3, DType.F32)],
)
def test_pairs_without_a_common_type_are_refused(a: DType, b: DType) -> None:
    with pytest.raises(DTypeMismatch, match="no common dtype"):
        promote(a, b)
