# `make gate` and `make test` are all a newcomer needs: each does its own set-up. `make help` lists the rest.
.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
ARGS ?=
NATIVE = $(shell find engine/native consistency/native -name '*.c' -o -name '*.cpp' -o -name '*.h')

.PHONY: help setup gate test test-long chaos lint format bench bench-scale sensitivity lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## the environment in .venv, the compiler and the emulators in the cache
	@setup/bootstrap.sh setup
	@echo "ready: $(BIN)/lockstep --help"

# make itself leaves with 2 whatever the recipe says; scripts that need the gate's own 0, 1, 2 or 3 call lockstep.
gate: ## build, deploy and judge the smoke suite on every chip (options: ARGS="--device NAME --base REF …")
	@setup/bootstrap.sh gate
	@$(BIN)/lockstep gate $(ARGS) || { code=$$?; \
	  echo "lockstep gate left with exit code $$code (make turns it into 2; \`$(BIN)/lockstep gate\` keeps it)" >&2; exit $$code; }

test: ## all tests but the long ones, a file a core (options: ARGS="-k NAME -x", ARGS="-n0 --pdb")
	@setup/bootstrap.sh test
	@$(BIN)/python -m pytest -m "not long" -n auto --maxprocesses=4 --dist=loadfile $(ARGS)

test-long: ## the exhaustive tests
	@setup/bootstrap.sh test
	@$(BIN)/python -m pytest -m long $(ARGS)

chaos: ## break a farm in every way at every moment; writes docs/faults.md (options: ARGS="-k NAME")
	@setup/bootstrap.sh test
	@$(BIN)/python -m tests.chaos.parts $(ARGS); code=$$?; $(BIN)/python -m tests.chaos.table || exit 1; exit $$code

lint: ## formatters, linters, types and import rules; warnings are errors
	@setup/bootstrap.sh lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --scripts-are-modules setup/*.py bench/*.py
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run -Werror $(NATIVE)

format: ## rewrite the sources as `make lint` wants them
	@setup/bootstrap.sh lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(NATIVE)

bench: ## every measurement of bench/, with the peers beside; build/bench/bench.json
	@setup/bootstrap.sh bench
	@$(BIN)/python bench/_all.py $(ARGS)

bench-scale: ## what the farm costs a job with 1,000 scripted devices (minutes); build/bench/farm_scale.json
	@setup/bootstrap.sh bench
	@mkdir -p build/bench
	@$(BIN)/python bench/farm_scale.py --json build/bench/farm_scale.json $(ARGS)

sensitivity: ## break models on purpose and write docs/sensitivity.md; about five minutes
	@setup/bootstrap.sh test
	@$(BIN)/lockstep faults run --seed 1 --page docs/sensitivity.md --json build/sensitivity.json $(ARGS)

lock: ## pin the environment again (after a change of pyproject.toml or setup/environment.in)
	@setup/bootstrap.sh lint
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --extra dev pyproject.toml setup/environment.in --output-file requirements.lock

clean: ## what was built and found here (the cache stays; docs/caches.md says how to empty it)
	rm -rf build out .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
