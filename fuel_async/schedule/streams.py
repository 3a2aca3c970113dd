"""Runs that come while others are under way: over several devices as planned, or whole to the one that ends it first.

A plan is made for idle devices, and all runs of a shape have the same one. So for each new run it is asked where it
would end first, by what devices are expected to do until then: what their lanes hold, and what runs have planned there
and not issued yet.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fuel_async.plan import destination, learned

if TYPE_CHECKING:
    from fuel_async.plan import Arriving
    from fuel_async.schedule.machine import Machine
    from fuel_async.schedule.prior import Prior
    from fuel_async.schedule.spread_state import SpreadState

#: The load is what was asked for within about so many times the time that all devices need for one run.
WINDOW = 16
#: The weight of a new run in the mean of that time.
NEWEST = 0.1
#: How much of what was learned of a device is forgotten with each run that comes while it has nothing to do: by and by
#: one goes there again, to see.
FORGOTTEN = 0.02


class Streams:
    """The part of a `SpreadScheduler` that says where whole runs go, with the account of what is not issued yet."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._load, self._mean_ns, self._at_ns = 0.0, 0.0, 0

    def admitted(self, state: SpreadState, now_ns: int) -> None:
        """Choose the plan that a run goes by, and note what it has for each device."""
        prior = state.prior
        if prior is None:
            return
        self._forget()
        if prior.basis is not None:
            self._ask(prior.basis.arriving, now_ns)
            self._choose(state, now_ns)
        self._note(state, 1)

    def looked_at(self, state: SpreadState, now_ns: int) -> None:
        """Choose again for a run of which nothing was issued, when it may be its turn: by what is true now."""
        prior = state.shape.prior
        if state.issued or state.prior is None or prior is None or prior.basis is None:
            return
        self._note(state, -1)
        self._choose(state, now_ns)
        self._note(state, 1)

    def _choose(self, state: SpreadState, now_ns: int) -> None:
        prior = state.shape.prior
        assert prior is not None
        assert prior.basis is not None
        graph = prior.basis.arriving.slower([device.factor for device in self._machine.devices])
        device = destination(graph, self._free_ns(len(graph.whole_ns), now_ns), now_ns, self._load)
        state.follow(prior if device is None else prior.basis.whole_on(device, prior))

    def issued(self, state: SpreadState, region: int) -> None:
        """Note that a lane holds a region now."""
        if state.prior is not None:
            self._machine.devices[state.prior.devices[region]].planned_ns -= state.prior.took_ns[region]

    def taken_back(self, state: SpreadState, region: int) -> None:
        """Note that a lane holds a region no more, which has not finished."""
        if state.prior is not None:
            self._machine.devices[state.prior.devices[region]].planned_ns += state.prior.took_ns[region]

    def follow(self, state: SpreadState, prior: Prior | None) -> None:
        """Let a run go by another plan, or by none any more."""
        self._note(state, -1)
        state.follow(prior)
        self._note(state, 1)

    def learn(self, device: int, took_ns: int, promised_ns: int) -> None:
        """Learn from a region that has ended how much longer than promised they take on a device."""
        if took_ns:
            load = self._machine.devices[device]
            load.factor = learned(load.factor, took_ns, promised_ns)

    def _forget(self) -> None:
        for device in self._machine.devices:
            if not device.planned_ns and not any(self._machine.lanes[lane].held for lane in device.lanes):
                device.factor += FORGOTTEN * (1.0 - device.factor)

    def _note(self, state: SpreadState, sign: int) -> None:
        prior, devices = state.prior, self._machine.devices
        if prior is None:
            return
        if not state.issued:
            for device, work_ns in enumerate(prior.work_ns):
                devices[device].planned_ns += sign * work_ns
            return
        for region, device in enumerate(prior.devices):
            if not state.is_issued(region):
                devices[device].planned_ns += sign * prior.took_ns[region]

    def _free_ns(self, count: int, now_ns: int) -> list[float]:
        """By device: when it is expected to be through with all that it has; never where it is gone."""
        lanes_ns = self._machine.free_ns(now_ns)
        free: list[float] = []
        for device in self._machine.devices[:count]:
            held = [lanes_ns[lane] for lane in device.lanes]
            planned_ns = device.planned_ns * device.factor
            free.append(math.inf if device.gone or not held else (sum(held) + planned_ns) / len(held))
        return free

    def _ask(self, graph: Arriving, now_ns: int) -> None:
        """Have the load, the share of what devices can do that is asked of them, include one more run."""
        together_ns = graph.together_ns
        self._mean_ns = self._mean_ns + NEWEST * (together_ns - self._mean_ns) if self._mean_ns else together_ns
        window_ns = WINDOW * self._mean_ns
        if window_ns:
            self._load = self._load * math.exp((self._at_ns - now_ns) / window_ns) + together_ns / window_ns
        self._at_ns = now_ns
