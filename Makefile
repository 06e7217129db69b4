# Everything a contributor needs. `make demo` and `make test` set up all they use, on a machine with Python 3.11 alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests say themselves what their workers get; a shell's own habits must not leak in.
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONPATH

.PHONY: demo test check soak bench docs system peers clean

demo: $(BIN)/flota
	$(BIN)/flota --nproc_per_node 2 --log_dir $(VENV)/demo-log examples/plain_python/train.py

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/unit tests/scenarios tests/properties tests/simulation tests/guards

# The fast tests run while frameworks are fetched.
test: $(VENV)/dev
	+$(MAKE) --no-print-directory --jobs=2 --output-sync=target check system peers
	$(BIN)/pytest tests/processes tests/contracts tests/store tests/netns tests/faults tests/peers

soak: $(VENV)/dev peers
	FLOTA_SOAK=1 $(BIN)/pytest tests/properties tests/simulation tests/processes tests/store tests/netns tests/faults tests/peers --durations=20

bench: $(VENV)/dev peers
	$(BIN)/python -m bench

# Shells whose completion is tried, ip for the network lab, and etcd 3.4; other tests say what they miss.
# etcd is only unpacked: installed, it would be a service of this machine.
system: $(VENV)/bin/python
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v zsh && command -v fish && command -v ip; } >/dev/null; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends zsh fish iproute2 >/dev/null; fi
	@[ -x /usr/bin/etcd ] || [ -x /usr/local/bin/etcd ] || [ -x $(VENV)/etcd/usr/bin/etcd ] || ! command -v apt-get >/dev/null || \
	  { cd $(VENV) && apt-get download -qq 'etcd-server=3.4*' && dpkg -x etcd-server_*.deb etcd; } 2>/dev/null || \
	  echo "no etcd 3.4 to be had here: tests use 3.5 alone"

peers: $(VENV)/dev
	$(BIN)/python tests/peers/environments.py

docs: $(VENV)/dev
	$(BIN)/python docs/make_reference.py

clean:
	rm -rf $(VENV) .peers build dist src/*.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "flota needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq python3-venv; \
	  else echo "this Python lacks venv: run apt install python3-venv"; exit 1; fi; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(BIN)/flota: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	@touch $@
