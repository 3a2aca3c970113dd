"""What tests of this package and of backends for it share: random graphs, a reference, virtual time, synthetic ops."""

from fuel_async.testing.graphs import Case as Case
from fuel_async.testing.graphs import graphs as graphs
from fuel_async.testing.graphs import random_graph as random_graph
from fuel_async.testing.reference import Expectation as Expectation
from fuel_async.testing.reference import check_results as check_results
from fuel_async.testing.reference import expectations as expectations
from fuel_async.testing.reference import reference as reference
from fuel_async.testing.synthetic import Synthetic as Synthetic
from fuel_async.testing.synthetic import register_synthetic_kernel as register_synthetic_kernel
from fuel_async.testing.synthetic import synthetic_op as synthetic_op
from fuel_async.testing.virtual_loop import VirtualLoop as VirtualLoop
from fuel_async.testing.virtual_loop import run_virtual as run_virtual
from fuel_async.testing.virtual_loop import virtual_loop as virtual_loop
