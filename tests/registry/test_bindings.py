"""The process's binding table: built from kernel packs, extended by replacement, never changed in place."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from fuel_async.dispatch import KernelBindingTable, KernelRef, OpParams
from fuel_async.errors import DuplicateKernel, RegistryMisuse
from fuel_async.ir import BackendId, DType, Layout, OpKind
from fuel_async.registry import (
    BindingsStore,
    Extender,
    bindings_problems,
    extend_global_bindings,
    global_bindings,
    topology_generation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CPU, ADD, MUL = BackendId.CPU, OpKind.AddElementwise, OpKind.MulElementwise
F32 = (DType.F32, DType.F32, DType.F32)


def make_kernel() -> KernelRef:
    def kernel(inputs: Sequence[Any], outputs: Sequence[Any], layouts: Sequence[Layout], params: OpParams) -> None:
        raise AssertionError("the registry never calls a kernel")

    return kernel


A, B = make_kernel(), make_kernel()


def registers(op: OpKind, kernel: KernelRef) -> Extender:
    def register(table: KernelBindingTable) -> None:
        table.register(op, F32, CPU, kernel)

    return register


class Publications:
    """Counts the calls of a store's `published` and keeps what was visible at each."""

    def __init__(self) -> None:
        self.store = BindingsStore(lambda: [("first", lambda: registers(ADD, A))], self)
        self.seen: list[int] = []

    def __call__(self) -> None:
        self.seen.append(len(self.store.snapshot()))


@pytest.fixture
def publications() -> Publications:
    return Publications()


@pytest.fixture
def store(publications: Publications) -> BindingsStore:
    return publications.store


def test_the_first_snapshot_is_built_from_the_packs_and_final(store: BindingsStore) -> None:
    table = store.snapshot()
    assert table.lookup(ADD, F32, CPU) is A
    assert table.is_final
    assert store.snapshot() is table


def test_building_the_table_publishes_nothing_new(publications: Publications) -> None:
    publications.store.snapshot()
    assert publications.seen == []


def test_a_failing_pack_is_left_out_with_its_reason_and_none_of_its_kernels() -> None:
    def half_way(table: KernelBindingTable) -> None:
        table.register(MUL, F32, CPU, B)
        raise OSError("no such library")

    def duplicates(table: KernelBindingTable) -> None:
        table.register(MUL, F32, CPU, B)
        table.register(MUL, F32, CPU, B)

    def unimportable() -> Extender:
        raise ImportError("no module named x")

    packs: list[tuple[str, Callable[[], Extender]]] = [
        ("broken", lambda: half_way),
        ("double", lambda: duplicates),
        ("missing", unimportable),
        ("sound", lambda: registers(ADD, A)),
    ]
    store = BindingsStore(lambda: packs, lambda: None)
    problems = store.problems()
    assert list(problems) == ["broken", "double", "missing"]
    assert problems["broken"] == "OSError: no such library"
    assert problems["missing"] == "ImportError: no module named x"
    assert problems["double"].startswith("DuplicateKernel: duplicate KernelRef")
    assert list(store.snapshot().iter_keys()) == [(ADD, F32, CPU)]


def test_a_pack_that_asks_for_the_table_being_built_is_left_out() -> None:
    stores: list[BindingsStore] = []
    stores.append(BindingsStore(lambda: [("greedy", lambda: lambda table: stores[0].snapshot())], lambda: None))
    assert "building" in stores[0].problems()["greedy"]


def test_an_interrupt_while_building_leaves_nothing_half_built() -> None:
    attempts: list[int] = []

    def interrupted_once(table: KernelBindingTable) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        table.register(ADD, F32, CPU, A)

    store = BindingsStore(lambda: [("pack", lambda: interrupted_once)], lambda: None)
    with pytest.raises(KeyboardInterrupt):
        store.snapshot()
    assert store.snapshot().lookup(ADD, F32, CPU) is A


def test_first_snapshots_of_two_threads_are_one_object() -> None:
    asked, found = threading.Event(), list[KernelBindingTable]()

    def ask() -> None:
        asked.set()
        found.append(stores[0].snapshot())

    other = threading.Thread(target=ask)

    def pack(table: KernelBindingTable) -> None:
        table.register(ADD, F32, CPU, A)
        other.start()
        assert asked.wait(5)

    stores = [BindingsStore(lambda: [("pack", lambda: pack)], lambda: None)]
    table = stores[0].snapshot()
    other.join(5)
    assert found == [table]


def test_a_held_snapshot_outlives_an_extension_unchanged(store: BindingsStore) -> None:
    held = store.snapshot()
    published = store.extend(lambda table: None)
    assert published is store.snapshot() is not held
    store.extend(registers(MUL, B))
    assert held.lookup(ADD, F32, CPU) is A
    assert not held.backend_supports(MUL, F32, CPU)
    assert store.snapshot().lookup(MUL, F32, CPU) is B


def test_the_change_is_visible_when_its_publication_is_told(publications: Publications) -> None:
    publications.store.extend(registers(MUL, B))
    assert publications.seen == [2]


@pytest.mark.parametrize("error", [ValueError("extender failed"), KeyboardInterrupt()])
def test_a_failing_extender_leaves_the_published_table_untouched(
    publications: Publications, error: BaseException
) -> None:
    store, before = publications.store, publications.store.snapshot()

    def fails(table: KernelBindingTable) -> None:
        table.register(MUL, F32, CPU, B)
        raise error

    with pytest.raises(type(error)):
        store.extend(fails)
    assert store.snapshot() is before
    assert publications.seen == []
    store.extend(registers(MUL, B))
    assert store.snapshot().backend_supports(MUL, F32, CPU)


def test_a_duplicate_found_at_finalize_leaves_the_published_table_untouched(store: BindingsStore) -> None:
    before = store.snapshot()
    with pytest.raises(DuplicateKernel):
        store.extend(registers(ADD, A))
    assert store.snapshot() is before


def test_an_extender_may_look_at_the_snapshot_before_its_own_change(store: BindingsStore) -> None:
    looked: list[KernelBindingTable] = []
    before = store.snapshot()
    store.extend(lambda table: looked.append(store.snapshot()))
    assert looked == [before]


def test_extending_from_inside_an_extender_is_a_typed_error(store: BindingsStore) -> None:
    before = store.snapshot()
    with pytest.raises(RegistryMisuse, match="table passed in"):
        store.extend(lambda table: store.extend(registers(MUL, B)))
    assert store.snapshot() is before
    store.extend(registers(MUL, B))


def test_an_extender_finalizing_or_keeping_its_table_cannot_change_what_is_published(
    store: BindingsStore,
) -> None:
    kept: list[KernelBindingTable] = []

    def keeps(table: KernelBindingTable) -> None:
        kept.append(table.finalize())

    assert store.extend(keeps) is kept[0]
    with pytest.raises(RegistryMisuse):
        registers(MUL, B)(kept[0])


def test_an_async_extender_is_refused_before_it_runs(store: BindingsStore) -> None:
    async def register(table: KernelBindingTable) -> None:
        raise AssertionError("never awaited")

    before = store.snapshot()
    with pytest.raises(RegistryMisuse, match="plain function"):
        store.extend(register)
    assert store.snapshot() is before


def test_an_extender_that_returns_an_awaitable_is_refused_and_its_coroutine_closed(
    store: BindingsStore,
) -> None:
    async def register(table: KernelBindingTable) -> None:
        raise AssertionError("never awaited")

    before = store.snapshot()
    with pytest.raises(RegistryMisuse, match="awaitable"):
        store.extend(lambda table: register(table))
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    with pytest.raises(RegistryMisuse, match="awaitable"):
        store.extend(lambda table: future)
    assert store.snapshot() is before


def test_writers_take_turns_so_check_then_bind_is_atomic(store: BindingsStore) -> None:
    wins: list[int] = []

    def bind_once(table: KernelBindingTable) -> None:
        if not table.backend_supports(MUL, F32, CPU):
            wins.append(1)
            table.register(MUL, F32, CPU, make_kernel())

    threads = [threading.Thread(target=store.extend, args=(bind_once,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert len(wins) == 1
    assert len(store.snapshot().lookup_alternatives(MUL, F32, CPU)) == 1


def test_readers_never_wait_for_a_writer(store: BindingsStore) -> None:
    before, inside, done = store.snapshot(), threading.Event(), threading.Event()

    def slow(table: KernelBindingTable) -> None:
        inside.set()
        assert done.wait(5)

    writer = threading.Thread(target=store.extend, args=(slow,))
    writer.start()
    assert inside.wait(5)
    assert store.snapshot() is before
    done.set()
    writer.join(5)
    assert store.snapshot() is not before


def test_the_processes_table_is_extended_and_its_generation_bumped_after_publishing() -> None:
    held, generation = global_bindings(), topology_generation()
    published = extend_global_bindings(lambda table: None)
    assert global_bindings() is published is not held
    assert topology_generation() == generation + 1
    assert list(held.iter_keys()) == list(published.iter_keys())


def test_a_held_snapshot_of_the_process_still_resolves_after_an_extension() -> None:
    held = global_bindings()
    extend_global_bindings(lambda table: None)
    assert held.backend_supports(ADD, F32, CPU)


def test_no_installed_kernel_pack_failed_to_load() -> None:
    assert bindings_problems() == {}
