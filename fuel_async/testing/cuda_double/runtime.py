"""`cupy.cuda.runtime`: its functions, from the modules that have them, and its numbers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fuel_async.testing.cuda_double import copies, devices, events, graphs, memory, pinned, statuses, streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: By the name in the runtime.
FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    function.__name__: function
    for function in (
        devices.driverGetVersion, devices.runtimeGetVersion, devices.getDeviceCount, devices.getDevice,
        devices.setDevice, devices.deviceSynchronize, devices.deviceCanAccessPeer, devices.deviceEnablePeerAccess,
        devices.deviceDisablePeerAccess, devices.deviceGetAttribute, devices.deviceGetPCIBusId,
        devices.getDeviceProperties, devices.memGetInfo,
        streams.streamCreateWithFlags, streams.streamCreateWithPriority, streams.streamDestroy,
        streams.streamSynchronize, streams.streamQuery, streams.streamWaitEvent, streams.streamGetFlags,
        streams.streamGetPriority, streams.streamBeginCapture, streams.streamEndCapture, streams.streamIsCapturing,
        events.eventCreateWithFlags, events.eventDestroy, events.eventRecord, events.eventSynchronize,
        events.eventQuery, events.eventElapsedTime,
        graphs.graphInstantiate, graphs.graphDestroy, graphs.graphExecDestroy, graphs.graphLaunch, graphs.graphUpload,
        memory.malloc, memory.free, pinned.hostAlloc, pinned.freeHost, pinned.hostRegister, pinned.hostUnregister,
        copies.memcpyAsync, copies.memcpyPeerAsync, copies.memsetAsync,
    )
})  # fmt: skip

#: By the name in the runtime. There are none for statuses.
NUMBERS: Mapping[str, int] = MappingProxyType({
    "memcpyHostToHost": copies.HOST_TO_HOST,
    "memcpyHostToDevice": copies.HOST_TO_DEVICE,
    "memcpyDeviceToHost": copies.DEVICE_TO_HOST,
    "memcpyDeviceToDevice": copies.DEVICE_TO_DEVICE,
    "memcpyDefault": copies.DEFAULT,
    "streamDefault": 0,
    "streamNonBlocking": streams.NON_BLOCKING,
    "streamLegacy": 1,
    "streamPerThread": 2,
    "eventDefault": 0,
    "eventBlockingSync": events.BLOCKING_SYNC,
    "eventDisableTiming": events.DISABLE_TIMING,
    "eventInterprocess": events.INTERPROCESS,
    "hostAllocDefault": 0,
    "hostAllocPortable": 1,
    "hostAllocMapped": 2,
    "hostAllocWriteCombined": 4,
    "streamCaptureModeGlobal": 0,
    "streamCaptureModeThreadLocal": 1,
    "streamCaptureModeRelaxed": 2,
    **{f"cudaDevAttr{name}": at for at, (name, _) in devices.ATTRIBUTES.items() if at not in devices.UNLISTED},
})  # fmt: skip

CONTENT: Mapping[str, Any] = MappingProxyType(
    {
        **FUNCTIONS,
        **NUMBERS,
        "CUDARuntimeError": statuses.CUDARuntimeError,
        "is_hip": False,
    }
)
