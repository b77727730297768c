# Ropewalk: each target sets up what it needs in .venv, from nothing.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
PYTEST := QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest

.PHONY: run test test-all lint screenshot clean

run: $(STAMP)
	$(BIN)/python main.py

test: $(STAMP) lint
	$(PYTEST) -m "not slow"

test-all: $(STAMP) lint
	$(PYTEST)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

screenshot: $(STAMP)
	QT_QPA_PLATFORM=offscreen $(BIN)/python main.py snapshot docs/window.png --size 1920x1080 --theme dark

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Ropewalk needs Python 3.11 or newer; set PYTHON=python3.11, for example.")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info
