"""Finding the graph that a text of the form MODULE:GRAPH names."""

from __future__ import annotations

import importlib
import inspect
import sys
from operator import attrgetter
from pathlib import Path

from fuel_async import Graph
from fuel_async.errors import FuelError, GraphNotFound


def find_graph(name: str) -> Graph:
    """Return the graph that an importable attribute is, or that it returns when called without arguments.

    Modules are looked for in the current folder, too. `GraphNotFound` says what is wrong with the name.
    """
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        raise GraphNotFound(name, "has no module and attribute with a colon between")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise GraphNotFound(name, f"there is no module {missing!r}") from error
        raise GraphNotFound(name, f"its module needs {missing!r}, which is not installed") from error
    except Exception as error:
        raise GraphNotFound(name, f"importing {module_name!r} raised {_said(error)}") from error
    try:
        found = attrgetter(attribute)(module)
    except AttributeError as error:
        raise GraphNotFound(name, f"module {module_name!r} has no {attribute!r}") from error
    return _graph(name, attribute, found)


def _graph(name: str, attribute: str, found: object) -> Graph:
    if isinstance(found, Graph):
        return found
    if not callable(found):
        raise GraphNotFound(name, f"{attribute!r} is {_kind(found)}, not a graph")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise GraphNotFound(name, f"{attribute!r} cannot be called without arguments ({error})") from error
    except ValueError:  # a callable that does not tell its parameters
        pass
    try:
        made = found()
    except FuelError:
        raise
    except Exception as error:
        raise GraphNotFound(name, f"{attribute!r} raised {_said(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise GraphNotFound(name, f"{attribute!r} is asynchronous")
    if not isinstance(made, Graph):
        raise GraphNotFound(name, f"{attribute!r} returned {_kind(made)}, not a graph")
    return made


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
