"""Forks and exits, in processes of their own: no hang, no thread left behind, no word on standard error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAD = """
import asyncio, os, sys, threading, time
import numpy as np
import fuel_async as fa
from tests.runtime.support import Rig, chain, doubling, gated, ints, installed, ones
"""


def run(script: str, *, flags: tuple[str, ...] = (), timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", *flags, "-c", HEAD + script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s)


def silent(script: str, *, flags: tuple[str, ...] = (), code: int = 0) -> str:
    done = run(script, flags=flags)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    return done.stdout


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

IN_CHILD = '''
def in_child(call):
    """Run `call` in a forked child, which must end well, within seconds."""
    pid = os.fork()
    if not pid:
        code = 9
        try:
            code = call() or 0
        except BaseException as error:
            print("child:", type(error).__name__, error, flush=True)
        finally:
            os._exit(code)
    until = time.monotonic() + 20
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, status
            return
        assert time.monotonic() < until, "the child hangs"
        time.sleep(0.01)

async def use(ex):
    for _ in range(4):
        assert (await ex.run(chain(100), x=ones(16)))["y"][0] == 101
'''


@needs_fork
def test_an_executor_opened_before_a_fork_is_refused_in_the_child() -> None:
    out = silent(
        IN_CHILD
        + """
ex = fa.Executor()
asyncio.run(use(ex))

def child():
    timed = lambda: ex.run(doubling(), x=ones(), timeout_s=1)
    for call in (lambda: ex.run(doubling(), x=ones()), timed, ex.__aenter__):
        try:
            asyncio.run(call())
        except fa.UserError as error:
            assert type(error).__name__ == "ForkedProcess", error
            assert "open one after the fork" in str(error)
        else:
            return 1
    async def submit():
        ex.submit(doubling(), x=ones())
    try:
        asyncio.run(submit())
    except fa.UserError as error:
        assert type(error).__name__ == "ForkedProcess", error
    asyncio.run(ex.aclose())          # nothing of it is there: at once
    new = fa.Executor()
    asyncio.run(use(new))             # a new one works
    asyncio.run(new.aclose())
    print("child ok", flush=True)

in_child(child)
asyncio.run(use(ex))                  # the parent's lives on
asyncio.run(ex.aclose())
print("parent ok")
"""
    )
    assert out.split("\n")[:2] == ["child ok", "parent ok"]


@needs_fork
def test_an_executor_made_but_not_opened_before_a_fork_works_on_both_sides() -> None:
    out = silent(
        IN_CHILD
        + """
ex = fa.Executor()

def child():
    asyncio.run(use(ex))
    asyncio.run(ex.aclose())
    print("child ok", flush=True)

in_child(child)
asyncio.run(use(ex))
asyncio.run(ex.aclose())
in_child(lambda: None)
print("parent ok")
"""
    )
    assert out.split("\n")[:2] == ["child ok", "parent ok"]


@needs_fork
def test_a_fork_while_work_is_in_flight() -> None:
    out = silent(
        IN_CHILD
        + """
from fuel_async.ir import CPU_DEVICE

async def main():
    with installed(Rig()) as rig:
        async with fa.Executor() as ex:
            task = asyncio.create_task(ex.run(gated(), x=ints()))
            await rig.gate.entered()
            pid = os.fork()
            if not pid:
                code = 9
                def child():
                    # In a thread: this one still believes that its loop runs.
                    nonlocal code
                    new = fa.Executor()
                    asyncio.run(use(new))
                    asyncio.run(new.aclose())
                    asyncio.run(ex.aclose())  # what is in flight there is none of this process
                    code = 0
                thread = threading.Thread(target=child)
                thread.start()
                thread.join(20)
                os._exit(code)
            status = (await asyncio.to_thread(os.waitpid, pid, 0))[1]
            assert os.waitstatus_to_exitcode(status) == 0, status
            rig.gate.open()
            assert (await task)["y"][0] == 3
    print("ok")

asyncio.run(main())
"""
    )
    assert out == "ok\n"


@needs_fork
def test_the_library_is_restored_in_a_child_that_closes_its_executor() -> None:
    silent(
        IN_CHILD
        + """
import threadpoolctl
def blas():
    return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]
before = blas()
ex = fa.Executor(blas_threads=1)
asyncio.run(use(ex))
assert set(blas()) <= {1}

def child():
    new = fa.Executor(blas_threads=1)
    asyncio.run(use(new))
    asyncio.run(new.aclose())
    assert blas() == before, blas()

in_child(child)
asyncio.run(ex.aclose())
assert blas() == before, blas()
"""
    )


EXITS = {
    "never closed": "ex = fa.Executor(); asyncio.run(ex.run(chain(200), x=ones(16)))",
    "in a kernel": """
async def main():
    asyncio.ensure_future(ex.run(gated(), x=ints()))
    await rig.gate.entered()
asyncio.run(main())
""",
    "in a kernel, by sys.exit": """
async def main():
    asyncio.ensure_future(ex.run(gated(), x=ints()))
    await rig.gate.entered()
    sys.exit(0)
asyncio.run(main())
""",
    "in a kernel, its loop left open": """
loop = asyncio.new_event_loop()
task = loop.create_task(ex.run(gated(), x=ints()))
loop.run_until_complete(rig.gate.entered())
task._log_destroy_pending = False
loop.close()
""",
    "while planning": """
g = chain(20_000)
async def main():
    await ex.run(doubling(), x=ones())
    asyncio.ensure_future(ex.run(g, x=ones(16)))
    for _ in range(5):
        await asyncio.sleep(0)
asyncio.run(main())
""",
    "while opening": """
async def main():
    asyncio.ensure_future(ex.run(doubling(), x=ones()))
    await asyncio.sleep(0)
asyncio.run(main())
""",
    "a long chain in its lane": """
g = chain(20_000)
async def main():
    await ex.run(g, x=ones(16))
    asyncio.ensure_future(ex.run(g, x=ones(16)))
    for _ in range(5):
        await asyncio.sleep(0)
asyncio.run(main())
""",
    "a map left behind": """
async def main():
    async for _ in ex.map(doubling(), [{"x": ones()}] * 100):
        break
asyncio.run(main())
""",
}


@pytest.mark.parametrize("flags", [(), ("-X", "dev")], ids=["", "-X dev"])
@pytest.mark.parametrize("script", EXITS.values(), ids=EXITS)
def test_the_interpreter_ends_with_work_in_flight(script: str, flags: tuple[str, ...]) -> None:
    silent(f"rig = Rig(); install = installed(rig); install.__enter__(); ex = fa.Executor()\n{script}\n", flags=flags)


def test_an_interrupt_ends_a_program_that_waits_for_a_run() -> None:
    """Control-C while a kernel runs: the block is left, the kernel is waited for, and the program ends."""
    script = """
async def main():
    with installed(Rig()) as rig:
        async with fa.Executor() as ex:
            task = asyncio.ensure_future(ex.run(gated(), x=ints()))
            await rig.gate.entered()
            threading.Timer(1.0, rig.gate.open).start()
            print("ready", flush=True)
            await task
asyncio.run(main())
"""
    command = [sys.executable, "-W", "error", "-c", HEAD + script]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGINT, 130, 1)
    assert "KeyboardInterrupt" in told
    assert "Exception ignored" not in told
