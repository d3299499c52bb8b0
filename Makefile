# `make demo` and `make test` do all the set-up they need; a second run skips it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint docs bench clean

# Two CSV files of a made-up company, a third of the roles missing: a model, predictions, a page.
STAFF := examples/staff
demo: $(READY)
	$(BIN)/pdgnn inspect $(STAFF)/edges.csv
	$(BIN)/pdgnn fit $(STAFF)/edges.csv --nodes $(STAFF)/nodes.csv --label role --minutes 1 --force -o demo/model
	$(BIN)/pdgnn predict demo/model --force -o demo/predictions.csv
	head -n 6 demo/predictions.csv

# A process for each core, of one thread: threads that wait for each other's cores are slow.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadgroup

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in site/: open site/index.html; it needs neither a server nor a network.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)
	$(BIN)/python benchmarks/spectrum.py
	$(BIN)/python benchmarks/training.py

# pip with pinned constraints: the same versions on every machine.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pdgnn needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo site
