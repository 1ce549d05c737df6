# wavetrim's commands. `make` lists them; each one prepares what it needs.
#
# Without PYTHON= the environment is .venv, made from the hashed locks in requirements/ and left
# alone until they change. With PYTHON=python3 nothing is installed: that interpreter runs the
# clone with the packages it has.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := /bin/sh

# uv from the PATH, else fetched from PyPI into an environment of its own.
UV := $(or $(shell command -v uv),.tools/uv/bin/uv)
export UV_PYTHON_DOWNLOADS := never

# uv's cache is in the home folder, or here if that cannot be written.
ifndef UV_CACHE_DIR
export UV_CACHE_DIR := $(shell kept="$${XDG_CACHE_HOME:-$${HOME:-.tools}/.cache}/uv"; \
	above=$$kept; while [ ! -e "$$above" ]; do above=$$(dirname "$$above"); done; \
	if [ -w "$$above" ]; then realpath -m "$$kept"; else echo "$(CURDIR)/.tools/.cache/uv"; fi)
endif

# Python writes bytecode files, whatever the caller's environment says: otherwise each of the many
# processes that tests start compiles FastAPI and SQLAlchemy anew, for a second.
unexport PYTHONDONTWRITEBYTECODE

# An NVIDIA driver is there: the gpu packages are worth their download. GPU=0|1 overrides.
ifndef GPU
GPU := $(shell if [ -e /proc/driver/nvidia/version ] || command -v nvidia-smi >/dev/null 2>&1 \
	|| [ -e /usr/lib/wsl/lib/libcuda.so.1 ] || ldconfig -p 2>/dev/null | grep -q libcuda.so.1; \
	then echo 1; else echo 0; fi)
endif
ifeq ($(filter 0 1,$(GPU)),)
$(error GPU=$(GPU): GPU takes 0 (without CUDA packages) or 1 (with them))
endif

ifeq ($(origin PYTHON),command line)
ENVIRONMENT :=
PY := PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" "$(PYTHON)"
else
LOCK := requirements/$(if $(filter 1,$(GPU)),dev-gpu,dev).lock
ENVIRONMENT := .venv/.made-from-$(notdir $(LOCK))
GENERATORS := .tools/generators/.made
COMPILER := .tools/compiler/cc
PY := .venv/bin/python
endif

.PHONY: help
help: ## list the commands
	@echo "usage: make COMMAND [GPU=0|1] [PYTHON=python3]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) \
		| while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done
	@echo
	@echo "GPU=1 takes the CUDA packages, GPU=0 leaves them; without it, a driver decides."
	@echo "PYTHON=python3 installs nothing and uses that interpreter's packages."

# --- running ---------------------------------------------------------------------------------

.PHONY: demo demo-cluster serve
demo: $(ENVIRONMENT) ## start a service, multiply two matrices over HTTP, check the product
	@$(PY) -m wavetrim demo $(ARGS)

demo-cluster: $(ENVIRONMENT) ## a product as jobs of row blocks over three nodes here; one node is killed
	@$(PY) -m wavetrim demo --nodes 3 --size 4096 $(ARGS)

serve: $(ENVIRONMENT) ## run the service in the foreground (settings: docs/settings.md)
	@exec env $(PY) -m wavetrim serve $(ARGS)

# --- checking --------------------------------------------------------------------------------

.PHONY: check test test-rest test-all test-gpu bench bench-host bench-http bench-jobs bench-kernels image-test compose-test
check: $(ENVIRONMENT) ## lint, format, types and layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

# Files with tests of a mark: collecting the others takes ten seconds.
marked = $(shell grep -rl 'mark\.$(1)' tests --include='test_*.py')

# First the tests that measure times, alone. Then the others, in three processes more than there are
# cores, as many of them wait for a service; conftest.py sets their order. 5 is pytest's exit code
# where ARGS picks none of a kind.
PARALLEL = --numprocesses=$$(($$(nproc) + 3)) --dist=loadfile --no-loadscope-reorder
define run_tests
	$(PY) -m pytest -m "serial and $(1)" $(or $(ARGS),$(call marked,serial)) || [ $$? -eq 5 ]
	$(PY) -m pytest -m "not serial and $(1)" $(PARALLEL) $(ARGS) || [ $$? -eq 5 ]
endef

# C is compiled by zig's compiler, a wheel, as it is in the image.
test: export PATH := $(if $(COMPILER),$(CURDIR)/.tools/compiler:)$(PATH)
test: $(ENVIRONMENT) $(COMPILER) ## the tests that need make and Python alone, the same on every machine
	$(call run_tests,not needs and not slow)

test-rest: $(ENVIRONMENT) $(GENERATORS) ## those that need programs or rights (tests/needs.py), or take long
	$(call run_tests,(needs or slow))

test-all: test test-rest ## all tests that need no GPU

test-gpu: $(ENVIRONMENT) ## the tests that need a CUDA GPU; fails without one
	$(PY) -m pytest -m gpu $(call marked,gpu) $(ARGS)

# Seconds of each fuzzer. `make -j 3 -O fuzz` runs them in parallel. SEED repeats a run.
FUZZ_SECONDS = 600
SEED = 1
FUZZ = --seconds $(FUZZ_SECONDS) --seed $(SEED) $(ARGS)

.PHONY: fuzz fuzz-document fuzz-parsers fuzz-wire
fuzz: fuzz-document fuzz-parsers fuzz-wire ## all three fuzzers, ten minutes each (FUZZ_SECONDS=600 SEED=1)

fuzz-document: $(ENVIRONMENT) ## requests by the OpenAPI document, valid and not, to a real service
	$(PY) -m tests.fuzz.document $(FUZZ)

fuzz-parsers: $(ENVIRONMENT) ## the parsers, guided by coverage; needs Linux on x86_64
	$(PY) -m tests.fuzz.parsers $(FUZZ)

fuzz-wire: $(ENVIRONMENT) ## hostile bytes on a real service's sockets
	$(PY) -m tests.fuzz.wire $(FUZZ)

bench: $(ENVIRONMENT) ## measure on this machine, into benchmarks/results/
	$(if $(filter 1,$(GPU)),$(PY) -m benchmarks.kernels)
	$(PY) -m benchmarks.host

bench-host: $(ENVIRONMENT) ## compare products in host memory with CuPy's, PyTorch's and NumPy's; GPUS=n, CONDITION=quiet|after-numpy|busy|half
	$(PY) -m benchmarks.host $(if $(CONDITION),--parts contest --conditions $(CONDITION)) $(if $(GPUS),--gpus $(GPUS)) $(ARGS)

bench-http: $(ENVIRONMENT) ## compare products over HTTP with plain FastAPI services
	$(PY) -m benchmarks.http $(ARGS)

bench-jobs: $(ENVIRONMENT) ## measure jobs: loads, a flood, rates, lists; ARGS="--baseline PATH" compares another checkout
	$(PY) -m benchmarks.jobs $(ARGS)

bench-kernels: $(ENVIRONMENT) ## compare every kernel with cuBLAS; needs a CUDA GPU
	$(PY) -m benchmarks.kernels $(ARGS)

image-test: $(ENVIRONMENT) ## build the container image and run a multiplication in it
	$(PY) -m deploy.image_test $(ARGS)

compose-test: $(ENVIRONMENT) ## start a cluster of two nodes in containers and multiply; needs Docker
	$(PY) -m deploy.compose_test

# --- keeping the repository ------------------------------------------------------------------

.PHONY: readme figures explorer wheel wheel-test lock clean
readme: $(ENVIRONMENT) figures ## rewrite README.md's tables and sessions
	$(PY) -m docs.session

figures: $(ENVIRONMENT) ## fill the tables of docs/ and draw its plots, from benchmarks/results/
	$(PY) -m benchmarks.figures
	$(PY) -m docs.recorded_answers
	$(PY) -m docs.ladder_tables
	$(PY) -m docs.explorer_page

explorer: $(ENVIRONMENT) ## rewrite the wave explorer's recorded answers, its single file and its pictures (needs Chromium)
	$(PY) -m docs.recorded_answers
	$(PY) -m docs.ladder_tables
	$(PY) -m docs.explorer_page
	$(PY) -m docs.pictures

wheel: $(UV) ## build the wheel into dist/, the build tools hash-checked
	$(UV) build --wheel --clear --require-hashes --build-constraints requirements/build.lock --out-dir dist

wheel-test: wheel $(ENVIRONMENT) ## install that wheel next to packages of the same names, use it, serve from it
	UV="$(abspath $(UV))" $(PY) -m deploy.wheel_test dist/*.whl

COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: $(UV) ## resolve requirements/*.lock anew from pyproject.toml (UPGRADE=1: newest)
	$(COMPILE) pyproject.toml --extra gpu --extra jwt --extra otel --extra postgres --group dev \
		-o requirements/dev-gpu.lock
	$(COMPILE) -c requirements/dev-gpu.lock pyproject.toml --extra jwt --extra otel --extra postgres --group dev \
		-o requirements/dev.lock
	$(COMPILE) -c requirements/dev-gpu.lock pyproject.toml --extra gpu --extra jwt --extra otel --extra postgres \
		-o requirements/gpu.lock
	$(COMPILE) -c requirements/dev-gpu.lock pyproject.toml --extra jwt --extra otel --extra postgres \
		-o requirements/base.lock
	$(COMPILE) -c requirements/dev-gpu.lock pyproject.toml --extra ray -o requirements/ray.lock
	$(COMPILE) -c requirements/dev-gpu.lock --group build -o requirements/build.lock
	$(COMPILE) --group tools -o requirements/tools.lock
	$(COMPILE) --group generators -o requirements/generators.lock

clean: ## remove environments, caches and builds
	rm -rf .venv .tools .image build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environment -----------------------------------------------------------------------------

# The first interpreter of at least 3.11.
FIND_PYTHON = for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	if command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
	then found=$$p; break; fi; done; \
	[ -n "$$found" ] || { echo "make: no Python of at least 3.11 was found on the PATH" >&2; exit 1; }

.tools/uv/bin/uv: requirements/tools.lock
	@$(FIND_PYTHON); mkdir -p .tools; echo "make: fetching uv into .tools/uv"; \
	$$found -m venv --clear .tools/uv >.tools/venv.log 2>&1 || { cat .tools/venv.log >&2; \
		echo "make: $$found cannot make virtual environments; install its venv module" \
		"(Debian, Ubuntu: apt-get install python3-venv) or put uv on the PATH" >&2; exit 1; }; \
	.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# Both generators of clients, each pinned by hashes, in one environment.
.PHONY: environment generators
environment: $(ENVIRONMENT) ## what the commands need: they prepare it themselves

generators: .tools/generators/.made ## the generators of clients that a test runs

.tools/generators/.made: requirements/generators.lock tests/generators/package-lock.json | $(UV)
	@$(FIND_PYTHON); echo "make: preparing .tools/generators from $<"; \
	$(UV) venv --quiet --clear --python $$found .tools/generators \
	&& $(UV) pip sync --quiet --require-hashes --python .tools/generators $< \
	&& cp tests/generators/package.json tests/generators/package-lock.json .tools/generators/ \
	&& cd .tools/generators && PATH="$$PWD/bin:$$PATH" npm ci --silent --cache .cache && touch .made

# A command `cc` that works wherever Python does.
.tools/compiler/cc: requirements/build.lock | $(UV)
	@$(FIND_PYTHON); echo "make: preparing .tools/compiler from $<"; \
	$(UV) venv --quiet --clear --python $$found .tools/compiler \
	&& $(UV) pip sync --quiet --require-hashes --python .tools/compiler $< \
	&& printf '%s\n' '#!/bin/sh' 'here=$${0%/*}' 'export ZIG_GLOBAL_CACHE_DIR="$$here/cache"' \
		'exec "$$here/bin/python" -m ziglang cc -mcpu=baseline "$$@"' >.tools/compiler/.cc \
	&& chmod +x .tools/compiler/.cc && mv .tools/compiler/.cc $@

.venv/.made-from-%: requirements/% pyproject.toml | $(UV)
	@$(FIND_PYTHON); export VIRTUAL_ENV="$(CURDIR)/.venv"; \
	.venv/bin/python -c "" 2>/dev/null || $(UV) venv --quiet --clear --python $$found .venv; \
	echo "make: preparing .venv from $<"; \
	$(UV) pip sync --quiet --require-hashes $< \
	&& $(UV) pip install --quiet --no-deps --no-build-isolation --editable . \
	&& rm -f .venv/.made-from-* && touch $@
