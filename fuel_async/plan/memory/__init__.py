"""Where temporaries live: offsets in one arena, by live range over the partial order of regions."""

from fuel_async.plan.memory.offsets import ALIGNMENT as ALIGNMENT
from fuel_async.plan.memory.offsets import Arena as Arena
from fuel_async.plan.memory.offsets import assign_offsets as assign_offsets
