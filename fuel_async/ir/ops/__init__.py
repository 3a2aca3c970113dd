"""All ops of the graph, a file a family; `OPS` is the table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuel_async.ir.ops.borders import BORDERS
from fuel_async.ir.ops.bundle import BUNDLES
from fuel_async.ir.ops.elementwise import ELEMENTWISE
from fuel_async.ir.ops.indexing import INDEXING
from fuel_async.ir.ops.inplace import INPLACE
from fuel_async.ir.ops.leaf import LEAVES
from fuel_async.ir.ops.masks import MASKS
from fuel_async.ir.ops.matmul import MATMULS
from fuel_async.ir.ops.movement import MOVEMENT
from fuel_async.ir.ops.normalise import NORMALISE
from fuel_async.ir.ops.reduce import REDUCE
from fuel_async.ir.ops.rope import ROTATIONS
from fuel_async.ir.ops.scan import SCANS

if TYPE_CHECKING:
    from fuel_async.ir.op import OpSpec

OPS: tuple[OpSpec, ...] = (
    *LEAVES,
    *ELEMENTWISE,
    *REDUCE,
    *NORMALISE,
    *MATMULS,
    *ROTATIONS,
    *MOVEMENT,
    *INDEXING,
    *BORDERS,
    *MASKS,
    *INPLACE,
    *BUNDLES,
    *SCANS,
)

BY_NAME: dict[str, OpSpec] = {op.name: op for op in OPS}
