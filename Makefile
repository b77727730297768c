# Ropewalk: each target sets up what it needs in .venv, from nothing.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
LINKS  := $(VENV)/types/ropewalk
MODEL  := $(VENV)/models/SmolLM2-135M-Instruct.Q4_1.gguf
# two workers of one thread each: most tests are too small to share; in the files' order, which ends with short ones
# bytecode is kept even where the environment forbids it: tests start processes, and a second run is seconds shorter
PYTEST := PYTHONDONTWRITEBYTECODE= QT_QPA_PLATFORM=offscreen OMP_NUM_THREADS=1 \
          $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
TYPES  := $(VENV)/.types
# the tests, and the types and the contracts of imports beside them; what these say comes last, and any fails the target
BESIDE  = { $(BIN)/mypy; types=$$?; $(CONTRACTS) && exit $$types; } >$(TYPES) 2>&1 & beside=$$!; \
          $(1); tests=$$?; wait $$beside; beside=$$?; cat $(TYPES); exit $$((tests + beside))
CONTRACTS = cd $(VENV)/types && ../bin/lint-imports --config ../../pyproject.toml

.PHONY: run test test-all test-cuda test-portable breakages fuzz lint rules format types bundled-survey bench soak screenshot moments clean

run: $(STAMP)
	$(BIN)/python main.py

test: $(STAMP) $(MODEL) $(LINKS) format
	@$(call BESIDE,$(PYTEST) -m "not slow")

test-all: $(STAMP) $(MODEL) $(LINKS) format
	@$(call BESIDE,$(PYTEST))

# on the CUDA devices of this machine; where there is none, it says so
test-cuda: $(STAMP)
	QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -m cuda tests/cuda

# as other machines would: vector instructions, threads, products, hashes, order; one after the other
test-portable: $(STAMP) $(MODEL)
	$(BIN)/python -m tests.portable

# faults of one line, each of which the tests have to notice; ARGS names some of them
breakages: $(STAMP) $(MODEL)
	@$(BIN)/python -m tests.breakages $(ARGS)

# damaged files for every reader, for MINUTES or so many INPUTS; with GUIDED=1 atheris chooses them where it installs
fuzz: $(STAMP)
	$(if $(GUIDED),-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fuzz]')
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(if $(MINUTES),--minutes $(MINUTES)) $(if $(INPUTS),--inputs $(INPUTS)) $(if $(GUIDED),--guided) $(ARGS)

lint: rules types

rules: format $(LINKS)
	$(CONTRACTS)

format: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP) $(LINKS)
	$(BIN)/mypy

# the clone as the one package that it is when installed, for tools that read files: mypy, import-linter, editors
$(LINKS): $(STAMP)
	rm -rf $(VENV)/types
	mkdir -p $(LINKS)
	ln -s $(foreach part,ropewalk/__init__.py ropewalk/__main__.py app model views resources,../../../$(part)) $(LINKS)/
	ln -s ../../tests $(VENV)/types/

# a real model for the tests; without a network they are skipped, visibly
$(MODEL): | $(STAMP)
	-$(BIN)/python -m tests.model.checkpoints.fetch

# the surveys of the bundled model that come along, from the TEXT that it was trained on
bundled-survey: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.bundled_survey $(TEXT)

# speed and memory beside the peers; those that cannot be installed are left out, visibly
bench: $(STAMP)
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m tests.benchmarks.peers $(ARGS)

# a thousand random actions in the window; ARGS gives other seeds and numbers
soak: $(STAMP)
	$(BIN)/python -m tests.soak $(ARGS)

screenshot: $(STAMP)
	QT_QPA_PLATFORM=offscreen $(BIN)/python main.py snapshot docs/window.png --size 1920x1080 --theme dark --steps 3 --select "L1H3 q=27 k=14"

# the smaller pictures of the README
moments: $(STAMP)
	$(BIN)/python -m tests.moments

$(STAMP): pyproject.toml setup.cfg constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ropewalk needs Python 3.11 or newer; set PYTHON=python3.11, for example.")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache ropewalk.png
	find . -name __pycache__ -prune -exec rm -rf {} +
