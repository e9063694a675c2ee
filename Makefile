# Each target makes the virtual environment it needs under .venvs/; nothing else has to be installed.
PYTHON ?= $(shell sh tools/find_python.sh)
ENVIRONMENT = sh tools/environment.sh $(@D)
TESTS ?=
# Tests start hundreds of processes: each would compile the source of the package again.
unexport PYTHONDONTWRITEBYTECODE
# As many test processes as there are processors; one that has nothing left takes tests from the others.
SIDE_BY_SIDE ?= -n auto --dist worksteal

.PHONY: help demo test lint types docs site bench test-all test-portable test-faults test-adapters test-gpu test-nvrtc test-oracle fuzz mutate clean
.DELETE_ON_ERROR:

help:
	@echo "make demo           the main example: JPEG files to a trained classifier, with throughput"
	@echo "make test           the whole suite (TESTS=tests/... for a part of it)"
	@echo "make test-portable  the core of the suite without what only Linux has"
	@echo "make test-faults    300 jobs killed at random, interrupts at every line, 1,000 programs with failing samples (an hour)"
	@echo "make lint           ruff and mypy"
	@echo "make types          pyright over a user's program: what completion knows after a dot"
	@echo "make docs           regenerate stubs, operator pages, the support table and the gallery, run every code block, make the site"
	@echo "make site           the documentation as a site with search, in build/site"
	@echo "make bench          every benchmark, with its peers (BENCH=benchmarks/... for one)"
	@echo "make test-all       the suite on Python 3.11, 3.12 and 3.13"
	@echo "make test-adapters  torch, Lightning, Hugging Face, JAX, Keras, TensorFlow, Paddle, Ray, Grain and the libraries of image formats, for real"
	@echo "make test-oracle    compare with NVIDIA DALI 2.4.0 on the CPU"
	@echo "make test-nvrtc     compile the CUDA kernels and run them on the CPU; needs g++, no GPU (SHARE=1 ARCHITECTURES=all: every test)"
	@echo "make first-gpu-run  what works on a GPU, what is wrong and what it costs, in nine minutes (CUDA=12 or 13, default 13)"
	@echo "make test-gpu       the tests that need a CUDA device (CUDA=12 or 13, default 13)"
	@echo "make fuzz           every reader and decoder against damaged files (MUTANTS=200000 for an hour of it)"
	@echo "make mutate         which of COUNT small changes of the code the tests notice (hours; SEED=1)"

# --- environments -------------------------------------------------------------------------------
SETUP = setup.cfg pyproject.toml tools/environment.sh

.venvs/demo/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[image]"

.venvs/test/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[test]"

.venvs/test-3.%/.ready: $(SETUP)
	@$(ENVIRONMENT) "$$(sh tools/find_python.sh 3.$*)" -e ".[test]"

# Frameworks are pinned: tests/last_runs.md says which versions were tried. The CPU build of torch comes from an index
# of its own; that of PyPI would bring some gigabytes of CUDA.
TORCH = torch==2.13.0+cpu --retries 1 --extra-index-url https://download.pytorch.org/whl/cpu

.venvs/adapters/.ready: $(SETUP)
	@FIRST="$(TORCH)" $(ENVIRONMENT) "$(PYTHON)" -e ".[test,ray,jax,formats]" torch==2.13.0+cpu keras lightning datasets \
	    opentelemetry-sdk nibabel clu

# Keras with TensorFlow, apart from the others: it brings its own versions of what they need.
.venvs/keras/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[test]" tensorflow-cpu==2.21.0 keras

.venvs/paddle/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[test]" paddlepaddle==3.3.1

.venvs/grain/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[test]" grain==0.2.18

.venvs/nvrtc/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[image,audio,cuda13]" pytest pytest-timeout pytest-xdist \
	    "nvidia-cuda-nvdisasm==13.*" nvidia-nvimgcodec-cu13
	@.venvs/nvrtc/bin/python -m pip install -q --no-deps --upgrade --target $(@D)/older-compilers/12.0 \
	    "nvidia-cuda-nvrtc-cu12==12.0.*" "nvidia-cuda-runtime-cu12==12.0.*"
	@.venvs/nvrtc/bin/python -m pip install -q --no-deps --upgrade --target $(@D)/older-compilers/13.0 \
	    "nvidia-cuda-nvrtc==13.0.*" "nvidia-cuda-runtime==13.0.*"

CUDA ?= 13
.venvs/gpu-cuda$(CUDA)/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[test,cuda$(CUDA),codec$(CUDA),fft$(CUDA)]" torch==2.13.0

.venvs/types/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e . "pyright[nodejs]==1.1.414"

.venvs/site/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[image,audio,parquet,processes,progress]" sphinx==9.0.4 myst-nb==1.4.0 \
	    pydata-sphinx-theme==0.24.0 sphinx-design==0.8.0 sphinx-copybutton==0.5.2

.venvs/bench/.ready: $(SETUP)
	@$(ENVIRONMENT) "$(PYTHON)" -e ".[test]"

.venvs/torch/.ready: tools/environment.sh
	@FIRST="$(TORCH)" $(ENVIRONMENT) "$(PYTHON)" numpy opencv-python-headless

.venvs/loader/.ready: $(SETUP)
	@FIRST="$(TORCH)" $(ENVIRONMENT) "$(PYTHON)" -e ".[processes]" pillow spdl

.venvs/dali/.ready: tools/environment.sh
	@$(ENVIRONMENT) "$(PYTHON)" nvidia-dali-cuda120==2.4.0 numba numpy opencv-python-headless

# albumentations 2.0 is the last one under the MIT licence.
.venvs/augmentations/.ready: tools/environment.sh
	@FIRST="$(TORCH) torchvision" $(ENVIRONMENT) "$(PYTHON)" numpy opencv-python-headless albumentations==2.0.8 kornia

# TensorFlow has no wheel for every Python; the benchmarks print its row only where it could be installed.
.venvs/tensorflow/.ready: tools/environment.sh
	@$(ENVIRONMENT) "$(PYTHON)" tensorflow-cpu || echo "TensorFlow cannot be installed here: benchmarks run without it"

# --- the two commands of the README -------------------------------------------------------------
demo: .venvs/demo/.ready
	.venvs/demo/bin/python examples/image_train.py

test: .venvs/test/.ready
	.venvs/test/bin/python -m pytest $(SIDE_BY_SIDE) --durations=20 $(TESTS)

# --- checks ---------------------------------------------------------------------------------------
lint: .venvs/test/.ready
	.venvs/test/bin/ruff check pipeflow tests benchmarks examples tools
	.venvs/test/bin/ruff format --check pipeflow tests benchmarks examples tools
	.venvs/test/bin/mypy

types: .venvs/types/.ready
	.venvs/types/bin/pyright --pythonpath .venvs/types/bin/python tests/typed/script.py

docs: .venvs/test/.ready
	.venvs/test/bin/python tools/generate_stubs.py
	.venvs/test/bin/python tools/generate_docs.py
	.venvs/test/bin/python examples/augmentation_gallery.py --output docs/images/gallery.jpg
	.venvs/test/bin/python -m pytest tests/test_docs.py
	$(MAKE) site

site: .venvs/site/.ready
	.venvs/site/bin/python tools/build_site.py

test-all: test-3.11 test-3.12 test-3.13

test-3.%: .venvs/test-3.%/.ready
	.venvs/test-3.$*/bin/python -m pytest $(SIDE_BY_SIDE) --durations=20 $(TESTS)

# The core of the suite without what only Linux has.
PORTABLE = tests/core tests/loop tests/functions tests/conditionals tests/processes/test_process_functions.py

test-portable: .venvs/test/.ready
	PYTHONPATH=tests/portable .venvs/test/bin/python -m pytest --durations=10 $(or $(TESTS),$(PORTABLE))

# The counts of docs/reliability.md, of which `make test` runs a part.
FAULTS = tests/loop/test_journal.py tests/core/test_interrupts.py tests/functions/test_whole_rows.py

test-faults: .venvs/test/.ready
	.venvs/test/bin/python -m pytest -m slow --timeout=3600 --durations=10 $(or $(TESTS),$(FAULTS))

test-adapters: .venvs/adapters/.ready .venvs/keras/.ready .venvs/paddle/.ready .venvs/grain/.ready
	.venvs/adapters/bin/python -m pytest -m adapters --timeout=300 --ignore=tests/adapters/test_tensorflow.py \
	    --ignore=tests/adapters/test_tensorflow_dataset.py --ignore=tests/adapters/test_paddle.py \
	    --ignore=tests/adapters/test_grain.py $(TESTS)
	.venvs/keras/bin/python -m pytest -m adapters --timeout=300 tests/adapters/test_keras.py tests/adapters/test_tensorflow.py \
	    tests/adapters/test_tensorflow_dataset.py
	.venvs/paddle/bin/python -m pytest -m adapters --timeout=300 tests/adapters/test_paddle.py
	.venvs/grain/bin/python -m pytest -m adapters --timeout=300 tests/adapters/test_grain.py

test-oracle: .venvs/test/.ready .venvs/dali/.ready
	PIPEFLOW_ORACLE_PYTHON=$(CURDIR)/.venvs/dali/bin/python \
	    .venvs/test/bin/python -m pytest -m oracle --timeout=300 $(TESTS)

# SHARE=1 runs all host tests, not one in four.
SHARE ?= 4
export ARCHITECTURES SHARE
test-nvrtc: .venvs/nvrtc/.ready
	.venvs/nvrtc/bin/python -m pytest -m nvrtc tests/nvrtc --timeout=180 --durations=10

test-gpu: .venvs/gpu-cuda$(CUDA)/.ready
	.venvs/gpu-cuda$(CUDA)/bin/python -m pytest -m gpu --timeout=300 $(TESTS)
	PIPEFLOW_ON_GPU=1 .venvs/gpu-cuda$(CUDA)/bin/python -m pytest -m nvrtc --timeout=300 -k "not machinery" \
	    $(wildcard tests/nvrtc/test_host_*.py)

# What a machine with a GPU runs first: nine minutes, and a table for the README at the end.
.PHONY: first-gpu-run
first-gpu-run: .venvs/gpu-cuda$(CUDA)/.ready
	.venvs/gpu-cuda$(CUDA)/bin/python tests/gpu/first_run.py

# Damaged files of every kind, in processes that may die of them; a run that was stopped goes on in its folder.
MUTANTS ?= 20000
FUZZ_FOLDER ?= fuzz-run
.PHONY: fuzz-files
fuzz-files: .venvs/test/.ready
	PYTHONPATH=tests:. .venvs/test/bin/python -m fuzz --mutants $(MUTANTS) --folder $(FUZZ_FOLDER)

# The same with the formats that need libraries of their own.
.PHONY: fuzz-formats
fuzz-formats: .venvs/adapters/.ready
	PYTHONPATH=tests:. .venvs/adapters/bin/python -m fuzz --mutants $(MUTANTS) --folder $(FUZZ_FOLDER)-formats

fuzz: fuzz-files
	.venvs/test/bin/python -m pytest -m fuzz --mutants=$$(( $(MUTANTS) / 100 )) --timeout=3600 $(TESTS)

# Which tests run which lines is recorded once; remove build/mutate to record it again. A stopped run goes on.
COUNT ?= 150
SEED ?= 1
# An interpreter that tells which lines run at little cost is needed: 3.12 or later.
build/mutate/recorded: | .venvs/test-3.13/.ready
	.venvs/test-3.13/bin/python tools/mutate.py --record --timeout=600 --ignore=tests/core/test_interrupts.py
	touch $@

mutate: .venvs/test-3.13/.ready .venvs/nvrtc/.ready build/mutate/recorded
	.venvs/test-3.13/bin/python tools/mutate.py --count $(COUNT) --seed $(SEED)

# --- benchmarks -------------------------------------------------------------------------------------
BENCH ?=
bench: .venvs/bench/.ready .venvs/dali/.ready .venvs/torch/.ready .venvs/loader/.ready .venvs/tensorflow/.ready \
    .venvs/augmentations/.ready .venvs/grain/.ready
	.venvs/bench/bin/python benchmarks/run.py $(BENCH)

clean:
	rm -rf fuzz-run .venvs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
