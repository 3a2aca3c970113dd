"""The matrix of cheapest paths between devices."""

from __future__ import annotations

import itertools

import pytest

from fuel_async.dispatch import CHEAPEST_FIRST, TransferMatrix, TransferPath
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation

GPU0, GPU1 = DeviceLocation(BackendId.CUDA), DeviceLocation(BackendId.CUDA, 1)


def test_a_device_reaches_itself_without_being_told_so() -> None:
    assert TransferMatrix().path(GPU0, GPU0) is TransferPath.SameDevice
    assert TransferMatrix([(GPU0, GPU0, TransferPath.HostStaging)]).path(GPU0, GPU0) is TransferPath.SameDevice


def test_where_nothing_is_advertised_the_host_stages() -> None:
    assert TransferMatrix().path(CPU_DEVICE, GPU0) is None
    assert TransferMatrix().path_or_staging(CPU_DEVICE, GPU0) is TransferPath.HostStaging


def test_direction_matters() -> None:
    matrix = TransferMatrix([(GPU0, CPU_DEVICE, TransferPath.DeviceCopy)])
    assert matrix.path_or_staging(GPU0, CPU_DEVICE) is TransferPath.DeviceCopy
    assert matrix.path(CPU_DEVICE, GPU0) is None


@pytest.mark.parametrize(("cheap", "dear"), list(itertools.combinations(CHEAPEST_FIRST, 2)))
def test_the_cheaper_of_two_advertised_paths_wins_in_either_order(cheap: TransferPath, dear: TransferPath) -> None:
    for first, second in ((cheap, dear), (dear, cheap)):
        assert TransferMatrix([(GPU0, GPU1, first), (GPU0, GPU1, second)]).path(GPU0, GPU1) is cheap


def test_every_kind_of_path_has_its_place_in_the_order_of_cost() -> None:
    assert sorted(CHEAPEST_FIRST, key=str) == sorted(TransferPath, key=str)


def test_entries_are_listed_in_the_order_of_registration() -> None:
    edges = [(GPU1, GPU0, TransferPath.Peer), (GPU0, CPU_DEVICE, TransferPath.DeviceCopy)]
    matrix = TransferMatrix(edges)
    assert list(matrix.entries()) == edges
    assert len(matrix) == 2
