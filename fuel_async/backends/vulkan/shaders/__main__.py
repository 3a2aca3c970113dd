"""`python -m fuel_async.backends.vulkan.shaders` builds the modules; with `--check` it compares them instead."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from fuel_async.backends.vulkan.shaders.build import FOLDER, build, differing


def main(arguments: list[str]) -> int:
    """Build into the package, or with `--check` beside it; 1 when modules differ."""
    here = FOLDER / "spv"
    if "--check" not in arguments:
        build(here)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        different = differing(here, Path(folder))
    for name in different:
        sys.stderr.write(f"{name}.spv is not what its source gives\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
