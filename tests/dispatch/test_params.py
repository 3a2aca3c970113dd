"""Kernel parameters are plain frozen values."""

from __future__ import annotations

import dataclasses

import pytest

from fuel_async.dispatch import MatmulParams, NoParams, OpParams, ReduceParams


def test_every_variant_hangs_below_the_base_under_its_seed_name() -> None:
    hung = {name: value.__name__ for name, value in vars(OpParams).items() if isinstance(value, type)}
    assert hung == {name.removesuffix("Params"): name for name in hung.values()}
    assert {*hung.values(), NoParams.__name__} == {variant.__name__ for variant in OpParams.__subclasses__()}
    assert OpParams.Reduce is ReduceParams
    assert isinstance(OpParams.NONE, NoParams)


def test_parameters_are_hashable_values() -> None:
    assert OpParams.Reduce((0, 2), True) == ReduceParams(dims=(0, 2), keepdim=True)
    assert len({OpParams.Clamp(0.0, 1.0), OpParams.Clamp(0.0, 1.0), OpParams.NONE, NoParams()}) == 2
    assert MatmulParams((), (), 1, 2, 3).m_compute is None


def test_parameters_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        OpParams.PowI(2).exp = 3  # type: ignore[misc]


def test_different_variants_with_equal_fields_differ() -> None:
    variants: list[OpParams] = [
        OpParams.Affine(0.0, 1.0),
        OpParams.Clamp(0.0, 1.0),
        OpParams.Cast(),
        OpParams.NONE,
    ]
    assert len(set(variants)) == 4


def test_a_pattern_takes_a_variant_apart() -> None:
    def dims_of(params: OpParams) -> tuple[int, ...] | None:
        match params:
            case ReduceParams(dims):
                return dims
            case _:
                return None

    assert dims_of(OpParams.Reduce((1,))) == (1,)
    assert dims_of(OpParams.NONE) is None
