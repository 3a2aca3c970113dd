"""The system as one value: devices, the backends that serve them, what each can run, and what copies cost.

`SystemTopology.current()` is the process's, kept until the topology generation moves on. An executor derives its own
from it for the devices it opened, simulated ones included; deriving publishes nothing. Learning what links really cost
is `cost.links`, choosing by it `schedule`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from fuel_async.dispatch import (
    DEFAULT_LINKS,
    BackendCapabilities,
    CapabilityRegistry,
    KernelBindingTable,
    LinkEstimate,
    Pair,
    Route,
    TransferMatrix,
    TransferPath,
    cheapest_route,
    route_over,
)
from fuel_async.ir import CPU_DEVICE, BackendId, DeviceLocation, DType, OpKind, SubstrateClass
from fuel_async.registry.bindings import global_bindings
from fuel_async.registry.capabilities import global_registry
from fuel_async.registry.topology import bump_topology_generation, topology_generation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

#: What one way between the host and a device is assumed to cost when bytes are staged and nothing is known of it: two
#: of them in series are `TransferPath.HostStaging`.
_ASSUMED_LEG = DEFAULT_LINKS[TransferPath.DeviceCopy]


@dataclass(frozen=True, slots=True, eq=False)
class SystemTopology:
    """An immutable snapshot, equal only to itself. Any thread. Made by `of`, `derived`, `without` and `current`."""

    #: The topology generation it was made for: every change that led to it is in the snapshot.
    generation: int
    #: The host first, which is always there, then by name and ordinal.
    devices: tuple[DeviceLocation, ...]
    #: Backends that have a device, by name.
    backends: tuple[BackendId, ...]
    #: Links whose figures were given, by the locations of two memories.
    links: Mapping[Pair, LinkEstimate]
    _registry: CapabilityRegistry = field(repr=False)
    _kernels: KernelBindingTable = field(repr=False)
    _coverage: Mapping[BackendId, AbstractSet[tuple[OpKind, DType]]] = field(repr=False)
    _memories: Mapping[DeviceLocation, DeviceLocation] = field(repr=False)
    _matrix: TransferMatrix = field(repr=False)
    #: `links`, and the defaults of advertised paths that are links.
    _priced: Mapping[Pair, LinkEstimate] = field(repr=False)

    # --- making one ---

    @classmethod
    def of(
        cls,
        capabilities: Iterable[BackendCapabilities],
        *,
        kernels: KernelBindingTable | None = None,
        links: Mapping[Pair, LinkEstimate] | None = None,
        memories: Mapping[DeviceLocation, DeviceLocation] | None = None,
        generation: int = 0,
        default_devices: bool = False,
    ) -> SystemTopology:
        """Return the topology of devices with these capabilities, most preferred first. Pure.

        `links` are measured or advertised figures by pair of memories, one direction each. `memories` says in whose
        memory a device works, where that is not its own. With `default_devices` a backend that has kernels and no
        device here gets its first one. Of two entries for one device the first wins.
        """
        first = {caps.device_location: caps for caps in reversed(tuple(capabilities))}
        registry = CapabilityRegistry(reversed(first.values())).freeze()
        table = KernelBindingTable().finalize() if kernels is None else kernels
        coverage = _coverage_of(table)
        memories, links = dict(memories or {}), dict(links or {})
        matrix = TransferMatrix(
            (memories.get(caps.device_location, caps.device_location), memories.get(end, end), path)
            for caps in registry.backends()
            for end, path in caps.transfer_paths
        )
        advertised = {
            (source, destination): DEFAULT_LINKS[path]
            for source, destination, path in matrix.entries()
            if path is not TransferPath.HostStaging
        }
        served = {caps.backend_id for caps in registry.backends()}
        deviceless = coverage.keys() - served if default_devices else set()
        others = {*first, *map(DeviceLocation, deviceless)} - {CPU_DEVICE}
        return cls(
            generation=generation,
            devices=(CPU_DEVICE, *sorted(others)),
            backends=tuple(sorted(served | deviceless)),
            links=MappingProxyType(links),
            _registry=registry,
            _kernels=table,
            _coverage=coverage,
            _memories=memories,
            _matrix=matrix,
            _priced={**advertised, **links},
        )

    def derived(
        self,
        capabilities: Iterable[BackendCapabilities],
        *,
        links: Mapping[Pair, LinkEstimate] | None = None,
        memories: Mapping[DeviceLocation, DeviceLocation] | None = None,
    ) -> SystemTopology:
        """Return a topology of other devices over the same kernels, for the same generation. Publishes nothing."""
        return SystemTopology.of(
            capabilities, kernels=self._kernels, links=links, memories=memories, generation=self.generation
        )

    def without(self, device: DeviceLocation) -> SystemTopology:
        """Return a topology in which a device advertises nothing: what is left when it is lost."""
        left = [caps for caps in self._registry.backends() if caps.device_location != device]
        gone = {self.memory_of(device)} - {CPU_DEVICE, *(self.memory_of(caps.device_location) for caps in left)}
        links = {pair: link for pair, link in self.links.items() if gone.isdisjoint(pair)}
        return self.derived(left, links=links, memories=self._memories)

    # --- the process's ---

    @staticmethod
    def current() -> SystemTopology:
        """Return the process's topology: the same object until the generation moves on.

        Making it anew takes milliseconds, and imports the kernel packs the first time: off a loop call this, on a
        loop `peek`. Of several threads one makes it.
        """
        return _TOPOLOGIES.current()

    @staticmethod
    def peek() -> SystemTopology | None:
        """Return the process's topology if it is made and current, else None. Never blocks."""
        return _TOPOLOGIES.peek()

    @staticmethod
    def refresh() -> int:
        """Make every snapshot stale and return the new generation; `on_topology_change` tells of it."""
        return bump_topology_generation()

    # --- who is there ---

    def devices_for(self, backend: BackendId) -> tuple[DeviceLocation, ...]:
        """Return the devices that run kernels of `backend`, as registered; () for an unknown one."""
        found = tuple(caps.device_location for caps in self._registry.backends() if caps.backend_id == backend)
        return found or ((DeviceLocation(backend),) if backend in self.backends else ())

    def backends_for(self, device: DeviceLocation) -> tuple[BackendId, ...]:
        """Return the backends whose kernels a device runs, by name; () for an unknown one."""
        return tuple(backend for backend in self.backends if device in self.devices_for(backend))

    def capabilities(self, device: DeviceLocation) -> BackendCapabilities | None:
        """Return what a device advertised; None when that is nothing."""
        return self._registry.for_device(device)

    def binding_op_coverage(self, backend: BackendId) -> AbstractSet[tuple[OpKind, DType]]:
        """Return the (op, output dtype) pairs for which `backend` has a kernel."""
        return self._coverage.get(backend, frozenset())

    def capabilities_op_coverage_divergence(self) -> tuple[tuple[BackendId, OpKind, DType], ...]:
        """Return what is advertised and has no kernel, sorted by the three names; () when all is well."""
        missing = {
            (caps.backend_id, op, dtype)
            for caps in self._registry.backends()
            for op, dtype in caps.op_dtype_support - self.binding_op_coverage(caps.backend_id)
        }
        return tuple(sorted(missing, key=lambda triple: (triple[0], triple[1].value, triple[2].name)))

    # --- memory and copies ---

    def memory_of(self, device: DeviceLocation) -> DeviceLocation:
        """Return the location of the memory that a device works in: its own, unless something else was said."""
        return self._memories.get(device, device)

    def substrate_class(self, backend: BackendId, device: DeviceLocation) -> SubstrateClass | None:
        """Return the kind of memory `backend` uses on a device; None when it has no such device."""
        if device not in self.devices_for(backend):
            return None
        caps = self.capabilities(device)
        return backend.default_substrate if caps is None else caps.storage_substrate

    def shares_storage(self, left: tuple[BackendId, DeviceLocation], right: tuple[BackendId, DeviceLocation]) -> bool:
        """Whether each can use the other's storage as it is: known, one memory, one kind of it."""
        if self.memory_of(left[1]) != self.memory_of(right[1]):
            return False
        substrate = self.substrate_class(*left)
        return substrate is not None and substrate == self.substrate_class(*right)

    def transfer_path(self, source: DeviceLocation, destination: DeviceLocation) -> TransferPath:
        """Return the cheapest advertised path between two devices, else `HostStaging`, which always works."""
        start, end = self.memory_of(source), self.memory_of(destination)
        if source != destination and start == end:
            return TransferPath.SharedMemory
        return self._matrix.path_or_staging(start, end)

    def transfer_estimate(self, source: DeviceLocation, destination: DeviceLocation) -> LinkEstimate:
        """Return figures for copies of every size between two devices, nearest to what is known.

        The link's own figures; else those of both ways over the host in series; else the default of the advertised
        path; else the ways over the host, as far as they are known, with the default of half of `HostStaging` for
        the rest. `route` may find a cheaper way for a given size, never a dearer one.
        """
        start, end = self.memory_of(source), self.memory_of(destination)
        if start == end:
            return DEFAULT_LINKS[TransferPath.SameDevice]
        given = self.links.get((start, end))
        if given is not None:
            return given
        down, up = (start, CPU_DEVICE), (CPU_DEVICE, end)
        if down in self.links and up in self.links:
            return self.links[down].then(self.links[up])
        path = self._matrix.path_or_staging(start, end)
        if path is not TransferPath.HostStaging or CPU_DEVICE in (start, end):
            return DEFAULT_LINKS[path]
        return self._priced.get(down, _ASSUMED_LEG).then(self._priced.get(up, _ASSUMED_LEG))

    def route(self, source: DeviceLocation, destination: DeviceLocation, nbytes: int) -> Route:
        """Return the copies that bring `nbytes` from the memory of one device to that of another.

        The cheaper of the direct link and the two over the host. What is known of both ways over the host is weighed
        against a direct link; assumed figures are used only where no way is known. No copies within one memory.
        """
        start, end = self.memory_of(source), self.memory_of(destination)
        known = cheapest_route(self._priced, start, end, nbytes)
        if known is not None:
            return known
        stops = (start, end) if CPU_DEVICE in (start, end) else (start, CPU_DEVICE, end)
        leg = DEFAULT_LINKS[TransferPath.HostStaging] if len(stops) == 2 else _ASSUMED_LEG
        assumed = {pair: self._priced.get(pair, leg) for pair in pairwise(stops)}
        return route_over(assumed, stops, nbytes) or Route()

    def estimate_transfer_ns(self, source: DeviceLocation, destination: DeviceLocation, nbytes: int) -> int:
        """Return the predicted nanoseconds of that route: 0 within one memory, never less for more bytes."""
        return self.route(source, destination, nbytes).copy_ns


def _coverage_of(table: KernelBindingTable) -> Mapping[BackendId, AbstractSet[tuple[OpKind, DType]]]:
    """The (op, output dtype) pairs that plain calls of each backend's kernels serve."""
    coverage: dict[BackendId, set[tuple[OpKind, DType]]] = {}
    for op, dtypes, backend in table.iter_keys():
        pairs = coverage.setdefault(backend, set())
        if table.backend_supports(op, dtypes, backend):
            pairs.add((op, dtypes[-1]))
    return {backend: frozenset(pairs) for backend, pairs in coverage.items()}


class TopologyStore:
    """The snapshot of one generation after the other. Usable from any thread.

    `generation` is read before and after the sources; a bump between them makes it read again, so a snapshot never
    mixes two generations. Changes are published before they are bumped: one that is visible and not yet bumped may
    be in the snapshot already, whose successor then has the same content.
    """

    def __init__(
        self,
        generation: Callable[[], int],
        bindings: Callable[[], KernelBindingTable],
        capabilities: Callable[[], CapabilityRegistry],
    ) -> None:
        self._generation = generation
        self._bindings = bindings
        self._capabilities = capabilities
        self._lock = threading.Lock()
        self._made: SystemTopology | None = None

    def peek(self) -> SystemTopology | None:
        """Return the snapshot of this generation if it is made. Never blocks."""
        made = self._made
        return made if made is not None and made.generation == self._generation() else None

    def current(self) -> SystemTopology:
        """Return the snapshot of this generation, or of a later one that came meanwhile; make it if need be."""
        made = self.peek()
        if made is not None:
            return made
        # Foreign code may run in the sources, so the lock is taken after them.
        generation, table, registry = self._read()
        with self._lock:
            made = self._made
            if made is None or made.generation < generation:
                made = SystemTopology.of(
                    registry.backends(), kernels=table, generation=generation, default_devices=True
                )
                self._made = made
        return made

    def _read(self) -> tuple[int, KernelBindingTable, CapabilityRegistry]:
        while True:
            generation = self._generation()
            table, registry = self._bindings(), self._capabilities()
            if self._generation() == generation and self._bindings() is table:
                return generation, table, registry


_TOPOLOGIES = TopologyStore(topology_generation, global_bindings, global_registry)
