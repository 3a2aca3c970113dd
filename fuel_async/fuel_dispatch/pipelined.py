"""The seeds' module `pipelined`: the executor that walks a graph, a kernel and a handle at a time."""

from fuel_async.runtime import PipelinedExecutor as PipelinedExecutor
