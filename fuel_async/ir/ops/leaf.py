"""Leaves: values that come from outside the graph. Their types are given, never inferred."""

from __future__ import annotations

from fuel_async.ir.op import OpSpec, given

# A value fed anew by each run, by name.
INPUT = OpSpec(name="input", arity=0, infer=given)

# A value known when the graph is built: adopted read-only, uploaded once a device.
CONSTANT = OpSpec(name="constant", arity=0, infer=given)

LEAVES = (INPUT, CONSTANT)
