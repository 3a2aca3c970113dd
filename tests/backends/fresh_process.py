"""What a process of its own says of a backend, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

#: By name: how a process leaves that has two works, the first of which is held by one elsewhere.
WAYS = {
    "end of the script": "pass",
    "sys.exit": "sys.exit(0)",
    "closed loop": """
    async def wait():
        await held
    loop = asyncio.new_event_loop()
    task = loop.create_task(wait())
    loop.run_until_complete(asyncio.sleep(0.01))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    elsewhere.end()
    held.wait(10)
    assert works[0].is_done
    """,
}

LEAVING = """
import asyncio, sys
from tests.backends.grids.devices import Elsewhere, Work
{opened}
works = [Work(device, seed) for seed in range(2)]
elsewhere = Elsewhere()
held = works[0].submit([elsewhere.handle])
{how}
"""

#: What is found, as JSON: modules of the driver that the import has loaded, and the devices or why there is none.
ASK = """
import json, sys
import fuel_async, {backend} as backend, {backend}.device
early = sorted(name for name in sys.modules if name.split(".")[0] in {driver})
found = backend.discover()
print(json.dumps([early, getattr(found, "reason", None) or [one.name for one in found]]))
"""


def ended(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that has run some code."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def leave(opened: str, way: str, before: str = "") -> None:
    """Let a process leave with work in flight. `opened` gives `device`; `before` is done just before it leaves."""
    how = f"{before}\n{textwrap.dedent(WAYS[way]).strip()}"
    process = ended(LEAVING.format(opened=textwrap.dedent(opened).strip(), how=how))
    assert (process.returncode, process.stdout) == (0, ""), process.stderr
    assert "Traceback" not in process.stderr


def asked(backend: str, driver: tuple[str, ...], hook: str = "", **environment: str) -> Any:
    """What a process says of a backend's discovery; `hook` is run before anything is imported."""
    process = ended(hook + ASK.format(backend=backend, driver=driver), **environment)
    assert (process.returncode, process.stderr) == (0, "")
    return json.loads(process.stdout)


def hiding(package: str, error: str) -> str:
    """A hook after which importing a package raises an error."""
    return f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == {package!r}: raise {error}('not here')
sys.meta_path.insert(0, Finder())
"""
