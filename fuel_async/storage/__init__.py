"""Bytes on devices: storages with their leases, the host's numpy faces of them, and what callers receive."""

from fuel_async.storage.arena import HostArena as HostArena
from fuel_async.storage.arena import laid_out as laid_out
from fuel_async.storage.device_array import DeviceArray as DeviceArray
from fuel_async.storage.storage import HOST_ALIGNMENT as HOST_ALIGNMENT
from fuel_async.storage.storage import HostArray as HostArray
from fuel_async.storage.storage import ReadLease as ReadLease
from fuel_async.storage.storage import Storage as Storage
from fuel_async.storage.storage import WriteLease as WriteLease
from fuel_async.storage.storage import alloc_bundle as alloc_bundle
from fuel_async.storage.storage import alloc_cpu as alloc_cpu
from fuel_async.storage.storage import as_array as as_array
from fuel_async.storage.storage import cpu_input as cpu_input
from fuel_async.storage.storage import cpu_output as cpu_output
from fuel_async.storage.storage import from_array as from_array
from fuel_async.storage.storage import read_storage as read_storage
from fuel_async.storage.storage import slot_arrays as slot_arrays
from fuel_async.storage.storage import stored as stored
from fuel_async.storage.storage import write_storage as write_storage
