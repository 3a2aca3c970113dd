"""What `import fuel_async` gives and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest

import fuel_async

PACKAGE = Path(fuel_async.__file__).parent
MODULES = [
    "fuel_async" + "".join(f".{part}" for part in path.relative_to(PACKAGE).with_suffix("").parts if part != "__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__main__.py"
]


class Report(TypedDict):
    failures: dict[str, str]
    threads: list[str]
    drivers: list[str]
    loops: list[str]


#: Runs in an interpreter of its own: imports the modules named by its arguments, prints a Report.
PROBE = """
import asyncio, importlib, json, sys, threading
failures, loops = {}, []

def watch(name):
    original = getattr(asyncio, name)
    def watched(*args, **kwargs):
        loops.append(name)
        return original(*args, **kwargs)
    for module in (asyncio, asyncio.events):
        setattr(module, name, watched)

for name in ("get_event_loop", "new_event_loop", "set_event_loop"):
    watch(name)
fresh_each = "--fresh" in sys.argv
for module in (argument for argument in sys.argv[1:] if argument != "--fresh"):
    if fresh_each:
        for loaded in [name for name in sys.modules if name.split(".")[0] == "fuel_async"]:
            del sys.modules[loaded]
    try:
        importlib.import_module(module)
    except BaseException as error:
        failures[module] = repr(error)
drivers = {name.split(".")[0] for name in sys.modules} & {"cuda", "cupy", "cupyx", "torch", "vulkan"}
threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
print(json.dumps({"failures": failures, "threads": threads, "drivers": sorted(drivers), "loops": loops}))
"""


def probe(*arguments: str) -> Report:
    command = [sys.executable, "-W", "error", "-c", PROBE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    report: Report = json.loads(done.stdout)
    return report


def test_every_public_name_exists() -> None:
    names = fuel_async.__all__
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(fuel_async, name)] == []


def test_importing_every_module_has_no_effect() -> None:
    """No warning, no thread, no driver library, no event loop."""
    assert probe(*MODULES) == {"failures": {}, "threads": [], "drivers": [], "loops": []}


@pytest.mark.slow
def test_every_module_can_be_the_first_imported() -> None:
    assert probe("--fresh", *MODULES)["failures"] == {}
