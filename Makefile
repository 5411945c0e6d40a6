# The commands of this project. Each one makes the environment it needs: from a bare clone and a
# Python >= 3.11, `make demo` and `make test` just work.
#
#   make test PYTHON=python3.12           another Python
#   make test PYTEST_FLAGS="-x -k char"   flags for pytest

PYTHON ?= python3
VENV ?= .venv
PYTEST_FLAGS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLING := $(VENV)/.installing

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow check clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-10s %s\n", $$1, $$2 }'

demo: $(INSTALLED) ## the default model tells the senses of a word apart, in real sentences
	$(BIN)/python examples/polysemy.py

test: $(INSTALLED) ## the tests that take seconds
	$(BIN)/python -m pytest -q -n 2 $(PYTEST_FLAGS)

test-slow: $(INSTALLED) ## the tests that take minutes
	$(BIN)/python -m pytest -q -m "slow and not gpu" $(PYTEST_FLAGS)

check: $(INSTALLED) ## format, lint, types, import rules, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory test

clean: ## delete caches and build outputs (delete .venv by hand to start afresh)
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find examples src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so an interrupted installation is never taken for a finished one. What a
# first one left is deleted before the next, as pip takes half a package for a whole one; an
# environment that worked is only updated, so that trying again without a network loses nothing.
$(INSTALLED): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" > /dev/null || { \
	    echo "error: no command '$(PYTHON)'. Name a Python >= 3.11: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "error: '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1); elmo needs Python >= 3.11. Name one: make $(or $(MAKECMDGOALS),test) PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || { \
	    echo "error: '$(PYTHON)' cannot make virtual environments. Install its venv module (Debian, Ubuntu: apt install python3-venv) or name another Python: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3" >&2; exit 1; }
	@if [ -e "$(INSTALLING)" ]; then rm -rf "$(VENV)"; fi
	@if [ ! -d "$(VENV)" ]; then mkdir -p "$(VENV)" && touch "$(INSTALLING)"; fi
	@echo "Installing into $(VENV) (some minutes the first time: PyTorch is large)"
	"$(PYTHON)" -m venv "$(VENV)"
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@rm -f "$(INSTALLING)" && touch "$(INSTALLED)"
