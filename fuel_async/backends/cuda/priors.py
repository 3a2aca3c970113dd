"""What is assumed of a device's speed until its programs and copies were measured.

Peaks follow from the hardware: multiprocessors, their arithmetic units by compute capability, clocks, and the width of
the memory (CUDA C++ Programming Guide, throughput of native arithmetic instructions). Kernels reach a part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.cost import LinkEstimate, Rates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuel_async.backends.cuda.physical import PhysicalDevice

#: f32 additions or multiplications of one multiprocessor in a clock, by compute capability; of a later one those of the
#: last before it.
UNITS: Mapping[tuple[int, int], int] = {(7, 0): 64, (8, 0): 64, (8, 6): 128, (9, 0): 128}

#: The parts of the peaks that elementwise kernels, products, and traffic reach.
ELEMENTWISE_SHARE, DENSE_SHARE, TRAFFIC_SHARE = 0.3, 0.6, 0.7

#: Time to launch one kernel.
CALL_NS = 4_000

#: Where the driver does not tell its clocks.
_CLOCK_KHZ, _MEMORY_CLOCK_KHZ, _MEMORY_BITS = 1_200_000, 5_000_000, 192

#: The way between the host's memory and a device's: over PCI Express, or within one memory.
HOST_LINK, SHARED_LINK = LinkEstimate(15_000.0, 10.0), LinkEstimate(10_000.0, 20.0)
#: The way between two devices.
PEER_LINK = LinkEstimate(12_000.0, 16.0)


def rates_of(physical: PhysicalDevice) -> Rates:
    """Return what a device is said to do in a nanosecond."""
    units = max([each for least, each in UNITS.items() if least <= physical.capability], default=64)
    clock_khz = physical.clock_khz or _CLOCK_KHZ
    flops = 2.0 * units * max(physical.multiprocessors, 1) * clock_khz / 1e6  # a product and a sum in one
    memory_khz, bits = physical.memory_clock_khz or _MEMORY_CLOCK_KHZ, physical.memory_bits or _MEMORY_BITS
    traffic = 2.0 * memory_khz * bits / 8 / 1e6  # twice a clock
    return Rates(flops * ELEMENTWISE_SHARE, flops * DENSE_SHARE, traffic * TRAFFIC_SHARE, CALL_NS)


def host_link_of(physical: PhysicalDevice) -> LinkEstimate:
    """Return what copies between the host and a device are said to take."""
    return SHARED_LINK if physical.is_integrated else HOST_LINK
