"""What the instances of one device share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fuel_async.backends.grids.kernel import Limits
    from fuel_async.backends.vulkan.context import Context
    from fuel_async.backends.vulkan.memory import VulkanMemory
    from fuel_async.backends.vulkan.pipelines import Pipelines
    from fuel_async.backends.vulkan.queue import Queue
    from fuel_async.backends.vulkan.recording import Barriers
    from fuel_async.backends.vulkan.timeline import Timeline


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A device as its program instances need it."""

    context: Context
    memory: VulkanMemory
    pipelines: Pipelines
    barriers: Barriers
    limits: Limits
    #: The queue for what is no lane's: copies, and single kernels.
    queue: Queue
    #: The timelines of its queues.
    peers: list[Timeline]
