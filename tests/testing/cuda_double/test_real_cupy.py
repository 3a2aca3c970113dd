"""The double against the CuPy that is installed, imported without a device: names, signatures and answers."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fuel_async.testing.cuda_double import doubled
from fuel_async.testing.cuda_double.install import MODULES
from fuel_async.testing.cuda_double.raw import argument_of
from fuel_async.testing.cuda_double.statuses import TEXTS, CUDARuntimeError
from tests.testing.cuda_double import describing

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRED = os.environ.get("FUEL_ASYNC_TEST_CUDA") == "1"
pytestmark = pytest.mark.skipif(
    not REQUIRED and find_spec("cupy") is None,
    reason="the double is compared with CuPy, which is not installed: pip install 'fuel_async[test-cuda]'",
)

#: What the double has as functions and CuPy as classes: the buffer protocol cannot be had from Python before 3.12.
FUNCTIONS_FOR_CLASSES = frozenset({"PinnedMemoryPointer"})


@pytest.fixture(scope="module")
def real() -> dict[str, Any]:
    """What the CuPy of another process says of itself. Its devices are hidden, if there are any."""
    command = [sys.executable, describing.__file__, *MODULES]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    return result


@pytest.fixture
def ours(real: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The double on a machine like that of the other process."""
    (*_, status) = real["answers"]["runtime.getDeviceCount()"]
    with doubled(0, absence=status):
        yield json.loads(json.dumps(describing.described(list(MODULES))))


def test_every_name_is_one_of_cupys(real: dict[str, Any], ours: dict[str, Any]) -> None:
    for module, names in ours.items():
        theirs = real["modules"][module].keys()
        assert names.keys() <= theirs | {"cublas"}, (module, sorted(names.keys() - theirs))


def test_what_a_name_is(real: dict[str, Any], ours: dict[str, Any]) -> None:
    for module, names in ours.items():
        for name, entry in names.items():
            theirs = real["modules"][module].get(name, entry)
            if name in FUNCTIONS_FOR_CLASSES:
                assert (entry["kind"], theirs["kind"]) == ("function", "class")
            else:
                assert entry["kind"] == theirs["kind"], (module, name)
            if entry["kind"] == "class":
                assert entry["bases"] == theirs["bases"], (module, name)


def test_numbers_are_equal(real: dict[str, Any], ours: dict[str, Any]) -> None:
    seen = 0
    for module, names in ours.items():
        for name, entry in names.items():
            if entry["kind"] == "number" and name != "__version__":
                assert entry["value"] == real["modules"][module][name]["value"], (module, name)
                seen += 1
    assert seen > 50


def test_functions_take_what_cupys_take(real: dict[str, Any], ours: dict[str, Any]) -> None:
    for module, names in ours.items():
        for name, entry in names.items():
            if entry["kind"] == "function" and name in real["modules"][module]:
                theirs = real["modules"][module][name]
                assert refused(entry["parameters"], theirs["parameters"]) == [], (module, name)


def test_classes_have_the_members_of_cupys(real: dict[str, Any], ours: dict[str, Any]) -> None:
    for module, names in ours.items():
        for name, entry in names.items():
            if entry["kind"] != "class":
                continue
            theirs = real["modules"][module][name]
            assert refused(entry["parameters"], theirs["parameters"]) == [], (module, name)
            assert entry["members"].keys() <= theirs["members"].keys(), (module, name)
            for member, ours_of_it in entry["members"].items():
                its = theirs["members"][member]
                assert ours_of_it["kind"] == its["kind"], (name, member)
                assert refused(ours_of_it.get("parameters"), its.get("parameters")) == [], (name, member)


def refused(ours: list[list[str]] | None, theirs: list[list[str]] | None) -> list[str]:
    """What the double's parameters allow and CuPy's do not. Nothing is known of parameters that are None."""
    if ours is None or theirs is None:
        return []
    positional = [[name, default] for name, kind, default in theirs if kind == "positional"]
    by_name = {name: default for name, kind, default in theirs if kind in ("positional", "keyword")}
    takes_any = any(kind == "keywords" for _, kind, _ in theirs)
    wrong = []
    own = [[name, default] for name, kind, default in ours if kind == "positional"]
    for at, (name, default) in enumerate(own):
        if at >= len(positional) or positional[at][0] != name or not same_default(positional[at][1], default):
            wrong.append(f"{name}={default}")
    for name, kind, default in ours:
        if kind == "keyword" and not takes_any and not same_default(by_name.get(name, "none such"), default):
            wrong.append(f"{name}={default}")
    named = {name for name, _, _ in ours}
    wrong += [f"without {name}" for name, default in by_name.items() if not default and name not in named]
    return wrong


def same_default(theirs: str, ours: str) -> bool:
    """Whether two defaults are the same; those of Cython are written as names of the runtime, or with types."""
    named = {"streamCaptureModeRelaxed": "2", "False": "0", "True": "1"}
    return named.get(theirs, theirs) == named.get(ours, ours)


def test_the_rule_of_parameters_can_fail() -> None:
    a, b = ["a", "positional", ""], ["b", "positional", "1"]
    assert refused([a, b], [a, b]) == []
    assert refused([a], [a, b]) == []
    assert refused([a, b], [a]) == ["b=1"]
    assert refused([b], [a, b]) == ["b=1", "without a"]
    assert refused([a, ["b", "positional", "2"]], [a, b]) == ["b=2"]
    assert refused([["b", "keyword", "1"]], [["b", "keyword", "1"]]) == []
    assert refused([["b", "keyword", "1"]], [["rest", "keywords", ""]]) == []
    assert refused([["c", "keyword", "1"]], [b]) == ["c=1"]


def test_answers_without_a_device(real: dict[str, Any], ours: dict[str, Any]) -> None:
    assert ours
    names = {
        "cupy": import_module("cupy"), "runtime": import_module("cupy.cuda.runtime"), "np": np, "pickle": pickle,
    }  # fmt: skip
    answers = describing.answers(describing.ANSWERS, names)
    for expression, answer in answers.items():
        assert outline(answer) == outline(real["answers"][expression]), expression


def outline(answer: list[Any]) -> list[Any]:
    """An answer without the full name of a type, which no double can have."""
    name = re.compile(r"'[\w.]*\bDevice'")
    return [name.sub("Device", part) if isinstance(part, str) else part for part in answer]


@pytest.mark.parametrize("argument", describing.ARGUMENTS)
def test_arguments_that_kernels_take(real: dict[str, Any], argument: str) -> None:
    theirs = real["arguments"][f"launch({argument})"]
    with doubled(1):
        names = {"cupy": import_module("cupy"), "np": np, "argument_of": argument_of}
        answer = describing.answers((f"argument_of({argument})",), names)[f"argument_of({argument})"]
    if theirs[1] == "TypeError":
        assert answer == theirs
    else:
        assert answer[0] == "value"


def test_texts_of_statuses(real: dict[str, Any]) -> None:
    for status in TEXTS:
        assert str(CUDARuntimeError(status)) == real["statuses"].get(str(status)), status
