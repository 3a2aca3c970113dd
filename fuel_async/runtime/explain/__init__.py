"""A plan in words: which regions, of which kernels, on which device, when, and why there and not elsewhere.

An explanation tells what a single run would do on idle devices by what is known now. It is made by the scheduler
itself, over predictions instead of lanes, and by the ranking of candidates, so it cannot differ from what a run does by
more than the predictions do. Everything here is pure.
"""

from fuel_async.runtime.explain.facts import Alternative as Alternative
from fuel_async.runtime.explain.facts import CallExplanation as CallExplanation
from fuel_async.runtime.explain.facts import Candidate as Candidate
from fuel_async.runtime.explain.facts import CopyExplanation as CopyExplanation
from fuel_async.runtime.explain.facts import DeviceExplanation as DeviceExplanation
from fuel_async.runtime.explain.facts import Explanation as Explanation
from fuel_async.runtime.explain.facts import Refusal as Refusal
from fuel_async.runtime.explain.facts import RegionExplanation as RegionExplanation
from fuel_async.runtime.explain.facts import nbytes_text as nbytes_text
from fuel_async.runtime.explain.facts import share_text as share_text
from fuel_async.runtime.explain.known import Known as Known
from fuel_async.runtime.explain.known import KnownDevice as KnownDevice
from fuel_async.runtime.explain.made import Spread as Spread
from fuel_async.runtime.explain.made import explain_local as explain_local
from fuel_async.runtime.explain.made import explain_spread as explain_spread
