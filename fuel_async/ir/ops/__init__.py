"""All ops of the graph, a file a family; `OPS` is the table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir.ops.elementwise import ELEMENTWISE
from fuel_async.ir.ops.indexing import INDEXING
from fuel_async.ir.ops.leaf import LEAVES
from fuel_async.ir.ops.matmul import MATMULS
from fuel_async.ir.ops.movement import MOVEMENT
from fuel_async.ir.ops.reduce import REDUCE

if TYPE_CHECKING:
    from fuel_async.ir.op import OpSpec

OPS: tuple[OpSpec, ...] = (*LEAVES, *ELEMENTWISE, *REDUCE, *MATMULS, *MOVEMENT, *INDEXING)

BY_NAME: dict[str, OpSpec] = {op.name: op for op in OPS}
