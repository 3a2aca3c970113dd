"""What the driver says of its devices before one is opened: facts, read without making a context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuel_async.backends.cuda.kernels.gemm import CUBLAS
from fuel_async.backends.grids.elementwise import CIRCULAR_DOUBLE
from fuel_async.backends.grids.kernel import Limits

if TYPE_CHECKING:
    from fuel_async.backends.cuda.driver import Driver

#: Older devices are offered by no CuPy of today, or no longer by its compilers.
LEAST_CAPABILITY = (7, 0)

#: Threads of a group at most: what the kernels are made for. The hardware has more.
MAX_THREADS = 256
#: Bytes of shared memory that every device gives a group without being asked twice.
SHARED_NBYTES = 48 << 10
#: Groups of a grid (CUDA C++ Programming Guide, technical specifications).
MAX_GROUPS = (2**31 - 1, 65_535, 65_535)
#: Kernels count elements in 32 bits.
MAX_RANGE_NBYTES = 2**32 - 4
#: Every device has all of it.
FEATURES = frozenset({
    "float64", "float16", "int8", "int16", "int64", "int8_storage", "int16_storage", CIRCULAR_DOUBLE,
    "nan_preserve_f16", "nan_preserve_f32", "nan_preserve_f64",
})  # fmt: skip

#: cudaDeviceAttr (CUDA Runtime API).
_CLOCK, _MULTIPROCESSORS, _INTEGRATED, _ECC, _MEMORY_CLOCK, _MEMORY_BITS = 13, 16, 18, 32, 36, 37
_MAJOR, _MINOR = 75, 76


@dataclass(frozen=True, slots=True)
class PhysicalDevice:
    """One GPU."""

    #: Its number, as CUDA_VISIBLE_DEVICES leaves it.
    ordinal: int
    name: str
    capability: tuple[int, int]
    total_nbytes: int
    pci: str
    multiprocessors: int
    clock_khz: int
    memory_clock_khz: int
    memory_bits: int
    is_integrated: bool
    has_ecc: bool

    @property
    def lacks(self) -> str | None:
        """Why it cannot be used; None when it can."""
        if self.capability < LEAST_CAPABILITY:
            least = ".".join(map(str, LEAST_CAPABILITY))
            return f"{self.name} has compute capability {self.words}, at least {least} is needed"
        return None

    @property
    def words(self) -> str:
        """Its compute capability."""
        return ".".join(map(str, self.capability))

    def limits(self, *, has_blas: bool) -> Limits:
        """What kernels may ask of it, with cuBLAS or without."""
        return Limits(
            max_invocations=MAX_THREADS,
            max_groups=MAX_GROUPS,
            shared_nbytes=SHARED_NBYTES,
            subgroup=32,
            features=FEATURES | {CUBLAS} if has_blas else FEATURES,
            max_range_nbytes=MAX_RANGE_NBYTES,
        )


def look_at(driver: Driver, ordinal: int) -> PhysicalDevice:
    """Read the facts of a device. Makes no context. Raises what the driver raises."""
    runtime = driver.runtime
    told: dict[str, Any] = runtime.getDeviceProperties(ordinal)

    def attribute(number: int) -> int:
        try:
            return int(runtime.deviceGetAttribute(number, ordinal))
        except RuntimeError:  # clocks are not told by every driver
            return 0

    name = told["name"]
    return PhysicalDevice(
        ordinal=ordinal,
        name=name.decode(errors="replace") if isinstance(name, bytes) else str(name),
        capability=(attribute(_MAJOR), attribute(_MINOR)),
        total_nbytes=int(told["totalGlobalMem"]),
        pci=str(driver.cuda.Device(ordinal).pci_bus_id),
        multiprocessors=attribute(_MULTIPROCESSORS),
        clock_khz=attribute(_CLOCK),
        memory_clock_khz=attribute(_MEMORY_CLOCK),
        memory_bits=attribute(_MEMORY_BITS),
        is_integrated=bool(attribute(_INTEGRATED)),
        has_ecc=bool(attribute(_ECC)),
    )
