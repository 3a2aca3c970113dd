"""One kernel, once, on the device's last queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fuel_async.backends.grids.once import Alone
from fuel_async.backends.vulkan.memory import VulkanArray
from fuel_async.backends.vulkan.queue import Submission
from fuel_async.backends.vulkan.script import Script
from fuel_async.backends.vulkan.timeline import Point, Timeline
from fuel_async.ir import SubstrateClass
from fuel_async.streams import WaitStatus, fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuel_async.backends.grids.kernel import Dispatch
    from fuel_async.backends.grids.operands import Bound
    from fuel_async.backends.vulkan.site import Site


def _launch(
    site: Site, dispatches: Sequence[Dispatch], operands: Sequence[Bound], arrays: Sequence[VulkanArray]
) -> Callable[[], object]:
    script, context, timeline = Script(site), site.context, Timeline(site.context)
    for dispatch in dispatches:
        script.add(dispatch, operands)
    recording = script.record(lambda space: arrays[space[1]])
    submission = Submission(context, timeline, None, site.peers)
    context.check(site.queue.submit(submission, recording.commands, 1), "vkQueueSubmit")
    point = Point(timeline, None)
    point.value = 1

    return partial(_wait, point, (script, recording, submission))


def _wait(point: Point, held: object) -> None:
    """Block until it is reached; what the device works on is `held` meanwhile."""
    lost = point.timeline.context.lost if point.wait(None) is WaitStatus.LOST else None
    if lost is not None:
        raise fresh(lost)


#: See `Alone.run`.
run_once = Alone(VulkanArray, SubstrateClass.VulkanBuffer, _launch).run
