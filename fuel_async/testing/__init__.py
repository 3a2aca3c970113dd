"""What tests of this package and of backends for it share: random graphs, a reference to compare with."""

from fuel_async.testing.graphs import Case as Case
from fuel_async.testing.graphs import graphs as graphs
from fuel_async.testing.graphs import random_graph as random_graph
from fuel_async.testing.reference import Expectation as Expectation
from fuel_async.testing.reference import check_results as check_results
from fuel_async.testing.reference import expectations as expectations
from fuel_async.testing.reference import reference as reference
