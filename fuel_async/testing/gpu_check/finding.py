"""Where backends and devices come from: installed, or from a plain checkout."""

from __future__ import annotations

import gc
import os
import sys
import tomllib
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import fuel_async
from fuel_async.backends import Absent, OpenOptions, discover
from fuel_async.ir import BackendId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fuel_async.backends import Found

_GROUPS = ("fuel_async.backends", "fuel_async.kernels")

#: The variable by which the backend is told its options.
OPTIONS = "FUEL_ASYNC_CUDA"


@contextmanager
def entry_points_there() -> Iterator[None]:
    """Have the package's entry points found for a `with` block, also where it is not installed.

    Children find them, too, by PYTHONPATH.
    """
    if all(any(point.name == BackendId.CUDA.name for point in entry_points(group=group)) for group in _GROUPS):
        yield
        return
    root = Path(fuel_async.__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    before = os.environ.get("PYTHONPATH")
    with TemporaryDirectory() as folder:
        _write(Path(folder), project)
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, str(root), *([before] if before else [])])
        try:
            yield
        finally:
            sys.path.remove(folder)
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before


def _write(folder: Path, project: Mapping[str, Any]) -> None:
    """What an installation would have written: metadata with entry points."""
    made = folder / f"fuel_async-{project['version']}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fuel_async\nVersion: {project['version']}\n")
    lines: list[str] = []
    for group in _GROUPS:
        lines.append(f"[{group}]")
        lines += [f"{name} = {target}" for name, target in project["entry-points"][group].items()]
    (made / "entry_points.txt").write_text("\n".join([*lines, ""]))


def find() -> Sequence[Found] | Absent:
    """Return the CUDA devices, or why there is none."""
    found = discover()
    devices = [one for one in found.found if one.info.location.backend == BackendId.CUDA]
    return devices or Absent(found.absent.get(BackendId.CUDA.name, "no backend of that name is installed"))


@contextmanager
def opened(found: Sequence[Found], asked: OpenOptions | None = None, **options: float) -> Iterator[list[Any]]:
    """Open devices for a `with` block, with options of the backend by name."""
    before = os.environ.get(OPTIONS)
    os.environ[OPTIONS] = ";".join(f"{name}={value}" for name, value in options.items())
    try:
        devices: list[Any] = [one.spec.open(one.info, asked or OpenOptions()) for one in found]
    finally:
        if before is None:
            del os.environ[OPTIONS]
        else:
            os.environ[OPTIONS] = before
    try:
        yield devices
    finally:
        for device in devices:
            device.close()
        for device in devices:
            device.join(10.0)
        device = None
        devices.clear()
        gc.collect()  # what is next needs the memory
