"""A check of CUDA devices in one command, on the day there is one: is everything right, and how fast is it?

    python -m fuel_async.testing.gpu_check --budget-s 240 --json results.json

It runs from a plain checkout and needs numpy, ml_dtypes and a CuPy. `--double` has it run on the double instead.
"""

from fuel_async.testing.gpu_check.budget import Budget as Budget
from fuel_async.testing.gpu_check.check import SECTIONS as SECTIONS
from fuel_async.testing.gpu_check.check import run_check as run_check
from fuel_async.testing.gpu_check.report import Report as Report
from fuel_async.testing.gpu_check.report import Section as Section
