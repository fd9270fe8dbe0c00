# `make` builds everything and answers the first question; `make test` runs every test. Needs cargo, python3 and make.
# `make test-rust` and `make test-python` are its halves. Nothing is installed outside this folder: uv goes to .tools
# when it is absent, all else to .venv. `make interpreters` alone builds elsewhere, in the cache of the user.

PYTHON ?= python3
UV := $(or $(shell command -v uv 2>/dev/null),.tools/bin/uv)
BIN := .venv/bin
IN_VENV := VIRTUAL_ENV=$(CURDIR)/.venv PATH=$(CURDIR)/$(BIN):$$PATH

RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name '*.[ch]' -o -name Cargo.toml)
PACKAGE := pyproject.toml $(wildcard iolab.data/scripts/*)

.PHONY: main build test interpreters clean
.PHONY: lint lint-rust lint-python test-binaries test-rust test-python
.PHONY: bench-peers bench-models bench-fairness bench-truth bench-path bench-startup
.PHONY: bench-compare bench-verdicts bench-capacity bench-limits

# A machine that is too busy for a conclusion (3) has said so: that is an answer, not a failure.
main: build
	$(BIN)/iolab run echo-io_uring-epoll --quick || [ $$? -eq 3 ]

build: $(BIN)/iolab-engine

# First everything that compiles, then everything that runs: a compiler and Python's tests only slow each other down.
# The link of the engine uses one processor, so the lints and the tests' binaries, in a cargo profile of their own, are
# built beside it. In the second half, each target prints its output in one piece.
test:
	$(MAKE) --no-print-directory --jobs=2 --output-sync=line build lint-python test-binaries
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-rust test-python

test-binaries: lint-rust
	cargo test --workspace --no-run

lint: lint-rust lint-python

# A macro declares the modules of the models, where cargo fmt does not see them.
lint-rust:
	cargo fmt --check
	rustfmt --check --edition 2024 crates/models/src/*.rs
	cargo clippy --workspace --all-targets -- -D warnings

lint-python: .venv/.requirements
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

# Most of a test of the engine is waiting.
test-rust: build
	RUST_TEST_THREADS=$$((2 * $$(nproc))) cargo test --workspace

# The files of a passed run are deleted; those of a failed run stay, and pytest prints their path. Python caches its
# bytecode even if the environment forbids it, because many processes import the same files.
test-python: export PYTHONDONTWRITEBYTECODE =
test-python: build
	files=$$(mktemp -d) && $(BIN)/pytest --numprocesses=$$(nproc) --dist=worksteal --basetemp=$$files/pytest \
		&& rm -r $$files

bench-peers: build
	$(BIN)/python bench/peers.py

bench-models: build
	$(BIN)/python bench/costs.py

bench-fairness: build
	$(BIN)/python bench/fairness.py

bench-truth: build
	$(BIN)/python bench/ground_truth.py

bench-path: build
	$(BIN)/python bench/path_truth.py

bench-limits: build
	$(BIN)/python bench/limits_truth.py

bench-startup: build
	$(BIN)/python bench/startup.py

bench-verdicts: build
	$(BIN)/python bench/verdict_truth.py

bench-compare: build
	$(BIN)/python bench/compare.py

bench-capacity: build
	$(BIN)/python bench/capacity_truth.py

# One version of CPython with its GIL and without, in the cache of the user: all checkouts share them. Needs no .venv.
interpreters:
	PYTHONPATH=lab $(PYTHON) -m iolab.machine.twins requirements

clean:
	rm -rf .venv .tools target .mypy_cache .ruff_cache .hypothesis

# The engine, the `iolab` command and the package (in place: an edit of lab/ needs no build). touch, because an
# installer may keep the time of the file it copies.
$(BIN)/iolab-engine: $(RUST) $(PACKAGE) .venv/.requirements
	@echo "compiling the engine: some minutes the first time"
	$(IN_VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --reinstall-package iolab --editable .
	touch $@

# Compiled once here. Where Python may not write into .venv, each start of it would compile what it imports anew.
.venv/.requirements: requirements/dev.txt $(UV)
	test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	$(IN_VENV) $(UV) pip sync --quiet --compile-bytecode --require-hashes requirements/dev.txt
	touch $@

.tools/bin/uv:
	$(PYTHON) -m venv .tools || { echo "python3 has no venv module: install python3-venv" >&2; exit 1; }
	.tools/bin/python -m pip install --quiet --disable-pip-version-check uv
