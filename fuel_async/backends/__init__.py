"""The outside world, a folder a backend. What others may use is the contract here and what discovery finds."""

from fuel_async.backends.base import Absent as Absent
from fuel_async.backends.base import Arena as Arena
from fuel_async.backends.base import BackendSpec as BackendSpec
from fuel_async.backends.base import Device as Device
from fuel_async.backends.base import DeviceInfo as DeviceInfo
from fuel_async.backends.base import Memory as Memory
from fuel_async.backends.base import OpenOptions as OpenOptions
from fuel_async.backends.discovery import Discovery as Discovery
from fuel_async.backends.discovery import Found as Found
from fuel_async.backends.discovery import discover as discover
