"""The process's binding table: built once from the installed kernel packs, extended by replacement.

Readers get an immutable snapshot without a lock and keep it as long as they like. Writers take turns: copy,
fill the copy, finalize it, publish it by one assignment, bump the topology generation. A writer that fails
changes nothing. Kernel packs come by the entry-point group `fuel_async.kernels`; each is a function that
registers into a table.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TypeAlias

from fuel_async.dispatch import KernelBindingTable
from fuel_async.errors import RegistryMisuse
from fuel_async.registry.topology import bump_topology_generation

#: Registers kernels into an open table. Synchronous; may read `global_bindings()`, may not extend it.
Extender: TypeAlias = Callable[[KernelBindingTable], object]
#: A kernel pack's name and what loads its extender (importing it is part of loading).
KernelPack: TypeAlias = tuple[str, Callable[[], Extender]]

KERNEL_PACKS_GROUP = "fuel_async.kernels"


class BindingsStore:
    """One published binding table and its writers. Usable from any thread.

    `packs` lists the kernel packs, in order; `published` is called after each later publication, outside the
    lock.
    """

    def __init__(self, packs: Callable[[], Iterable[KernelPack]], published: Callable[[], object]) -> None:
        self._packs = packs
        self._published = published
        self._write_lock = threading.Lock()
        #: The thread that holds the write lock, so that it can be told from a thread that merely waits.
        self._writer: int | None = None
        self._table: KernelBindingTable | None = None
        self._problems: Mapping[str, str] = MappingProxyType({})

    def snapshot(self) -> KernelBindingTable:
        """Return the published table; the first call builds it, which imports the kernel packs.

        Never waits once it is built. `RegistryMisuse` from inside a pack that is being loaded for the first
        time.
        """
        table = self._table
        return table if table is not None else self._build()

    def problems(self) -> Mapping[str, str]:
        """Return why kernel packs were left out, by name. Builds the table when that has not happened."""
        self.snapshot()
        return self._problems

    def extend(self, extender: Extender) -> KernelBindingTable:
        """Publish a table with the kernels that `extender` adds, and return it.

        What the extender raises comes out unchanged, as does `DuplicateKernel`; the published table then
        stays as it is. `RegistryMisuse` for an async extender and for a call from inside an extender.
        """
        if inspect.iscoroutinefunction(extender):
            raise RegistryMisuse(f"{extender!r} is async; kernels are registered by a plain function")
        self.snapshot()
        with self._writing():
            table = self.snapshot().copy()
            _apply(extender, table)
            self._table = table.finalize()
        self._published()
        return table

    def _build(self) -> KernelBindingTable:
        with self._writing():
            if self._table is None:
                table, problems = KernelBindingTable(), dict[str, str]()
                for name, load in self._packs():
                    table, problem = _with_pack(table, load)
                    if problem is not None:
                        problems[name] = problem
                self._problems = MappingProxyType(problems)
                self._table = table.finalize()
            return self._table

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Take the writers' turn; a thread that already has it would wait for itself, so it is refused."""
        me = threading.get_ident()
        if self._writer == me:
            raise RegistryMisuse(
                "this very call is building or extending the binding table; register into the table passed in"
            )
        with self._write_lock:
            self._writer = me
            try:
                yield
            finally:
                self._writer = None


def _apply(extender: Extender, table: KernelBindingTable) -> None:
    result = extender(table)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise RegistryMisuse(f"{extender!r} returned an awaitable; kernels are registered by a plain function")


def _with_pack(table: KernelBindingTable, load: Callable[[], Extender]) -> tuple[KernelBindingTable, str | None]:
    """Return an open table with the pack's kernels, or `table` itself and what went wrong."""
    extended = table.copy()
    try:
        _apply(load(), extended)
        return extended.finalize().copy(), None
    except Exception as error:
        return table, f"{type(error).__name__}: {error}"


def installed_kernel_packs() -> list[KernelPack]:
    """Return the kernel packs of the installed distributions, by name; nothing is imported yet."""
    found = sorted(entry_points(group=KERNEL_PACKS_GROUP), key=lambda point: point.name)
    return [(point.name, point.load) for point in found]


_BINDINGS = BindingsStore(installed_kernel_packs, bump_topology_generation)


def global_bindings() -> KernelBindingTable:
    """Return the process's binding table, an immutable snapshot; any thread, no lock once it is built.

    The first call imports the installed kernel packs (tens of milliseconds: keep it off an event loop). A
    pack that fails is left out and `bindings_problems()` says why.
    """
    return _BINDINGS.snapshot()


def bindings_problems() -> Mapping[str, str]:
    """Return why installed kernel packs were left out, by name of the pack; empty when all is well."""
    return _BINDINGS.problems()


def extend_global_bindings(extender: Extender) -> KernelBindingTable:
    """Add kernels to the process's binding table and return the snapshot that was published.

    `extender(table)` registers into a private copy and may look at `global_bindings()`, which stays as it was
    until the extender is through; no other writer comes between. The topology generation is bumped after
    publishing. What the extender raises, or `DuplicateKernel`, leaves the published table untouched.
    `RegistryMisuse` for an async extender and for a nested call. Any thread; waits while another extender
    runs, so keep it off an event loop.
    """
    return _BINDINGS.extend(extender)
