"""The command line: what this machine offers and what the installed kernels cover."""

from fuel_async.cli.main import main as main
