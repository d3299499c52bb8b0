# `make demo` and `make test` do all the set-up they need; a second run skips it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint docs bench clean

# A graph whose neighbours mostly disagree, PD-GCN over the dial of gamma, and what it competes with.
DEMO := synthetic:num_nodes=2000,homophily=0.1
demo: $(READY)
	$(BIN)/pdgnn inspect $(DEMO) --plot demo/embedding.png
	$(BIN)/pdgnn train $(DEMO) --model plain-pd-gcn,mlp,plain-gcn,plain-gat \
		--gamma 0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1 --depth 1 --width 64 --lr 0.01 \
		--weight-decay 0.001 --dropout 0.1 --steps 150 --splits 0-2 --report demo/report.html

# A process for each core, of one thread: threads that wait for each other's cores are slow.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto

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
