"""Every exception of fuel_async, grouped by whose fault it is.

`UserError`: the call was wrong. `DeviceError`: the outside world failed (a kernel, a device, its memory).
`InternalError`: a bug in fuel_async. Each error keeps its facts as attributes, ends its text with a remedy where
there is one, and keeps the original cause in `__cause__`. Nothing is raised here; nothing else is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class FuelError(Exception):
    """Base of every error that fuel_async raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # Constructors take facts, not the text: copies and pickles are rebuilt from text and facts as they are.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[FuelError], args: tuple[object, ...], facts: Mapping[str, object]) -> FuelError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


class UserError(FuelError):
    """The caller asked for something that cannot be done as asked."""


class DeviceError(FuelError):
    """A device, a kernel or a device's memory failed while doing valid work."""


class InternalError(FuelError):
    """A law of fuel_async itself was broken: please report it with the text."""


# --- building a graph -------------------------------------------------------------------------------------------------


class GraphError(UserError):
    """A node cannot be built: the text names op, shapes and dtypes."""

    def __init__(self, op: str, reason: str, operands: Sequence[object] = ()) -> None:
        self.op, self.reason, self.operands = op, reason, tuple(operands)
        of = f" of {', '.join(str(operand) for operand in operands)}" if operands else ""
        super().__init__(f"{op}{of}: {reason}")


class ShapeMismatch(GraphError):
    """Operand shapes do not fit the op."""


class DTypeMismatch(GraphError):
    """Operand dtypes do not fit the op, or have no common dtype."""


class BundleMisuse(GraphError):
    """The outputs of a node that has several were used as if they were one, or a slot is not what it was taken for."""


class DTypeParseError(UserError):
    """A text names no dtype."""

    def __init__(self, text: str, known: Sequence[str]) -> None:
        self.text, self.known = text, tuple(known)
        super().__init__(f"{text!r} is no dtype; use one of {', '.join(known)}")


class GraphTextError(UserError):
    """The text form of a graph cannot be read back."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"graph text, line {line}: {reason}")


class GraphIllegal(InternalError):
    """The verifier found a graph that breaks the rules of a legal graph."""

    def __init__(self, node: int, rule: str, found: str) -> None:
        self.node, self.rule, self.found = node, rule, found
        super().__init__(f"node {node} breaks the rule {rule!r}: {found}")


# --- dispatch ---------------------------------------------------------------------------------------------------------


class NoBackendForOp(UserError):
    """No registered kernel serves (op, dtypes)."""

    def __init__(
        self,
        op: str,
        dtypes: Sequence[str],
        available_backends: Sequence[str] = (),
        supported_combinations: Sequence[tuple[str, str, tuple[str, ...]]] = (),
    ) -> None:
        self.op, self.dtypes = op, tuple(dtypes)
        self.available_backends = tuple(available_backends)
        self.supported_combinations = tuple(supported_combinations)
        near = [f"{b}: [{', '.join(d)}]" for b, o, d in supported_combinations if o == op][:8]
        hint = f"; {op} is there for {', '.join(near)}" if near else ""
        super().__init__(
            f"no kernel for {op} on [{', '.join(dtypes)}] "
            f"(backends asked: {', '.join(available_backends) or 'none'}){hint}; cast or register a kernel"
        )


class FilterRejected(UserError):
    """A demand left none of the kernels that could compute a node."""

    def __init__(self, filter_name: str, context: str, available_alternatives: int) -> None:
        self.filter_name, self.context = filter_name, context
        self.available_alternatives = available_alternatives
        super().__init__(
            f"{filter_name} admits none of {available_alternatives} candidates for {context}; "
            "ask for less or register a kernel that meets it"
        )


class NoDecisionDevice(UserError):
    """Nothing says on which device a node would run."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"no device for {node}; pin it with Graph.on() or give PlanOptions(pinned_device=…)")


class KernelArgumentError(UserError):
    """A kernel was called with operands or parameters that it cannot take."""

    def __init__(self, op: str, argument: str, got: object, wanted: object) -> None:
        self.op, self.argument, self.got, self.wanted = op, argument, got, wanted
        super().__init__(f"{op}: {argument} is {got}, wanted {wanted}")


class IndexOutOfRange(UserError):
    """An index operand holds a value outside the indexed dimension."""

    def __init__(self, op: str, index: int, limit: int) -> None:
        self.op, self.index, self.limit = op, index, limit
        super().__init__(f"{op}: index {index} is outside the indexed dimension; it has {limit} entries, from 0")


class DuplicateKernel(UserError):
    """One kernel was registered twice under the same key."""

    def __init__(self, op: str, dtypes: Sequence[str], backend: str) -> None:
        self.op, self.dtypes, self.backend = op, tuple(dtypes), backend
        super().__init__(f"duplicate KernelRef for {op} on [{', '.join(dtypes)}] of {backend}; register it once")


class RegistryMisuse(UserError):
    """A process-wide table was used in a way that cannot work (a published table changed, nested extension)."""


# --- storage ----------------------------------------------------------------------------------------------------------


class StoragePoisoned(DeviceError):
    """A writer of this storage died half-way: its bytes mean nothing."""

    def __init__(self, access: str, storage: str) -> None:
        self.access, self.storage = access, storage
        super().__init__(f"cannot {access} {storage}: a writer failed half-way; write it afresh and clear_poison()")


class StorageBusy(UserError):
    """A storage is leased in a way that excludes this access."""

    def __init__(self, access: str, storage: str, holders: str) -> None:
        self.access, self.storage, self.holders = access, storage, holders
        super().__init__(f"cannot {access} {storage} while it is held by {holders}; await the work that uses it first")


class WrongSubstrate(UserError):
    """A storage lives on another substrate than the kernel can address."""

    def __init__(self, what: str, got: object, wanted: object) -> None:
        self.what, self.got, self.wanted = what, got, wanted
        super().__init__(f"{what} lives on {got}, wanted {wanted}; insert a copy")


class ReadOnlyStorage(UserError):
    """A storage that adopted a read-only array was asked for writing."""

    def __init__(self, storage: str) -> None:
        self.storage = storage
        super().__init__(f"{storage} adopted a read-only array; write to a storage of its own")


class NotAdoptable(UserError):
    """An array or buffer cannot become a storage as it is."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        self.what, self.reason, self.remedy = what, reason, remedy
        super().__init__(f"{what} cannot be a storage: {reason}; {remedy}")


class NotExportable(UserError, BufferError):
    """An array cannot be handed to another library by DLPack; a `BufferError`, as that protocol demands."""

    def __init__(self, array: str, reason: str) -> None:
        self.array, self.reason = array, reason
        super().__init__(f"{array} cannot be exported: {reason}; pass a copy of numpy() in another dtype or place")


class OutOfMemory(DeviceError):
    """A request does not fit a device's budget."""

    def __init__(self, device: str, wanted_nbytes: int, budget_nbytes: int, detail: str = "") -> None:
        self.device, self.wanted_nbytes, self.budget_nbytes = device, wanted_nbytes, budget_nbytes
        super().__init__(
            f"{wanted_nbytes:,} bytes do not fit {device}: its budget is {budget_nbytes:,} bytes{detail}; "
            "run a smaller batch or give Executor(memory=…) more"
        )


# --- running ----------------------------------------------------------------------------------------------------------


class FeedError(UserError):
    """The feeds of a run do not fit the graph: `problems` maps each feed's name to what is wrong with it."""

    def __init__(self, graph: str, problems: Mapping[str, str]) -> None:
        self.graph, self.problems = graph, dict(problems)
        lines = "; ".join(f"{name!r}: {problem}" for name, problem in problems.items())
        super().__init__(f"feeds of graph {graph!r}: {lines}")


class MissingInput(UserError):
    """The walker needs the value of a leaf that was not given."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"{node} is not among the inputs; pass its value")


class KernelFailed(DeviceError):
    """A kernel raised while a run executed it; `__cause__` is the kernel's own error."""

    def __init__(self, node: str, device: str, cause: str, node_id: int = -1) -> None:
        self.node, self.device, self.cause, self.node_id = node, device, cause, node_id
        super().__init__(f"{node} failed on {device}: {cause}")


class Overloaded(UserError):
    """The executor's queue is full."""

    def __init__(self, queued: int, limit: int) -> None:
        self.queued, self.limit = queued, limit
        super().__init__(f"{queued} runs are queued, the limit is {limit}; await some of them or raise max_queued")


class GraphNotFound(UserError):
    """A text of the form MODULE:GRAPH does not lead to a graph."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"{name}: {reason}; give MODULE:GRAPH, a graph or a function that returns one")


class MachineDescriptionError(UserError):
    """The description of a simulated machine has something that makes no sense; `where` says where."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"description of a machine: {where} {reason}")


class ExecutorClosed(UserError):
    """The executor was closed before or while the call was made."""

    def __init__(self) -> None:
        super().__init__("the executor is closed; open a new one")


class WrongLoop(UserError):
    """The call was made where no asyncio event loop runs."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(f"fuel_async runs on asyncio (uvloop included), not on {found}; call it from asyncio.run(…)")


class ForkedProcess(UserError):
    """An executor opened before a fork was used in the child."""

    def __init__(self) -> None:
        super().__init__(
            "this executor was opened before the process forked and its threads are gone; open one after the fork"
        )


class Stopped(FuelError):
    """A lane gave a program up between two kernels because its run was stopped."""

    def __init__(self) -> None:
        super().__init__("the run was stopped")


class DeviceLost(DeviceError):
    """A device, or the thread that serves it, is gone."""

    def __init__(self, device: str, reason: str) -> None:
        self.device, self.reason = device, reason
        super().__init__(f"{device} is lost: {reason}")


class TransferFailed(DeviceError):
    """Bytes did not get from one device to another, or cannot."""

    def __init__(self, source: str, destination: str, reason: str) -> None:
        self.source, self.destination, self.reason = source, destination, reason
        super().__init__(f"copy from {source} to {destination}: {reason}")


class InvariantBroken(InternalError):
    """The scheduler's state contradicts itself; `story` is the log of the run."""

    def __init__(self, law: str, found: str, story: Sequence[str] = ()) -> None:
        self.law, self.found, self.story = law, found, tuple(story)
        tail = "".join(f"\n  {line}" for line in self.story)
        super().__init__(f"{law}: {found}{tail}")
