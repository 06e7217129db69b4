# Everything a contributor needs. `make demo` and `make test` set up all they use, on a machine with Python 3.11 alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
# The system is changed, with apt, by `make test SYSTEM=1` and where CI=true alone.
MAY_INSTALL := $(filter 1 true,$(or $(SYSTEM),$(CI)))
# The tests say themselves what their workers get; a shell's own habits must not leak in.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONPATH

.PHONY: demo test check processes hosts browser lab frameworks soak bench docs pictures site dist system peers clean

demo: $(BIN)/flota
	$(BIN)/flota --nproc_per_node 2 --log_dir $(VENV)/demo-log examples/plain_python/train.py

# All tiers, two things at a time: frameworks are fetched while the first tiers run. Each prints its own result when it
# has ended; one that fails does not keep the others from running, and fails this.
test: $(VENV)/docs
	+$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target check peers site dist processes browser lab frameworks

# Tier 1: nothing but Python.
check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -n 2 tests/unit tests/scenarios tests/properties tests/simulation tests/guards

# Tier 2: real processes on this machine. They mostly wait, so there are more of them at a time than cores.
processes: $(VENV)/dev system
	$(PYTEST) -n 4 tests/processes tests/contracts tests/store

# Tier 3: the page in a real browser, hosts of the network lab, then the real frameworks, whose imports keep a core busy
# each.
hosts: browser lab frameworks

browser: $(VENV)/dev system
	$(PYTEST) -n 2 tests/browser

lab: $(VENV)/dev system
	$(PYTEST) -n 4 tests/netns tests/faults

frameworks: $(VENV)/dev system peers
	$(PYTEST) -n 2 tests/peers

soak: $(VENV)/dev peers
	FLOTA_SOAK=1 $(PYTEST) tests/properties tests/simulation tests/processes tests/store tests/netns tests/faults tests/peers --durations=20

bench: $(VENV)/dev peers
	$(BIN)/python -m bench

system: $(VENV)/bin/python
	@MAY_INSTALL=$(MAY_INSTALL) sh tests/system.sh $(VENV)

peers: $(VENV)/dev
	$(BIN)/python tests/peers/environments.py

docs: $(VENV)/dev
	$(BIN)/python docs/make_reference.py

# Terminal pictures of real jobs, and pictures of the page. Needs root, or user namespaces; and Chromium.
pictures: $(VENV)/dev
	$(BIN)/python -m pip install --quiet -e '.[pictures]'
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python docs/make_page_pictures.py

# The sdist and the wheel, checked, and the demo run from the wheel in an empty environment.
dist: $(VENV)/dev
	$(BIN)/python -m tests.dist

# The pages of docs/ as a site, in build/site. A warning, such as a link that leads nowhere, is an error.
site: $(VENV)/docs
	$(BIN)/sphinx-build -W --keep-going -n -q -E -d build/doctrees docs build/site

clean:
	rm -rf $(VENV) .peers build dist src/*.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "flota needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  if [ -n "$(MAY_INSTALL)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "this Python lacks venv: run apt install python3-venv, or make SYSTEM=1 as root"; exit 1; fi; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(BIN)/flota: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@

# After dev: both install flota itself, and must not do so at the same time.
$(VENV)/docs: $(VENV)/dev
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@
