# The commands of the project. Set-up happens by itself where a target needs it, and is quick when nothing has changed.

PORT ?= 8080
DATA ?= ./data

# Two for each core, because tests wait for processes and disks; no more than one for each 2 GiB of memory, or than 8.
WORKERS ?= $(shell awk -v cores=$$(nproc) '$$1 == "MemAvailable:" { room = int($$2 / 2097152) } \
	END { n = 2 * cores; n = n < 8 ? n : 8; if (room < n) n = room; print (n > 2 ? n : 2) }' /proc/meminfo)

# Random examples change from day to day; the line that make prints says how to have them again.
SEED ?= $(shell date +%Y%m%d)

# Compiled modules are kept, even where a shell or an image tells Python not to: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

SHELL := bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help run test checks suite mutate bench setup setup-tests release torture format rooms reference words screenshots lock clean test-bare test-n8n n8n-operations examples

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## Run the service with demo data (PORT=8080, DATA=./data)
	@exec .venv/bin/kontobahn serve --demo --host 127.0.0.1 --port $(PORT) --data "$(DATA)"

test: setup-tests ## Run every check and every test, side by side
	@$(MAKE) --jobs=2 checks suite

checks:
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/lint-imports
	.venv/bin/mypy

suite:
	scripts/in_memory.sh .venv/bin/pytest --workers $(WORKERS) --durations=20 --hypothesis-seed=$(SEED)

test-bare: ## Run both commands of the README in bare roots, for each of RELEASES="bookworm trixie" (needs root; half an hour each)
	@python3 scripts/test_bare.py $(or $(RELEASES),bookworm trixie)

test-n8n: setup ## Try the n8n package, and the workflows of docs/n8n, in real n8ns from npm (large, apart from make test)
	.venv/bin/python scripts/test_n8n_node.py
	.venv/bin/python scripts/test_n8n.py

n8n-operations: setup ## Write the table of operations of the n8n node from the code
	@.venv/bin/python scripts/n8n_operations.py

examples: setup ## Record what the demo answers to every call, for the documentation page
	@.venv/bin/python scripts/record_answers.py

mutate: setup-tests ## Plant small faults, others each week, and tell which no test notices (MUTATE="webhooks/claims.py --sample 20")
	.venv/bin/python -m mutation $(MUTATE)

bench: setup-tests ## Run the benchmarks and write docs/performance.md, or only one (BENCH=name of a script; QUICK=1: short, for trying)
	@QUICK=$(QUICK) scripts/bench.sh $(BENCH)

setup: ## Set up what the service needs, in .venv
	@scripts/setup.sh

setup-tests: ## Set up what the checks, tests and benchmarks need as well
	@scripts/setup.sh tests
	@scripts/system-packages.sh

torture: setup-tests ## Run the trials under fault, or only one (TORTURE=name of a program in torture/, ARGS="its options")
	@PYTHONPATH=.:src .venv/bin/python -m torture$(if $(TORTURE),.$(TORTURE)) $(ARGS)

release: setup-tests ## Build the package into dist/, and check that it installs and runs
	@scripts/release.sh

format: setup-tests ## Put the code into the project's format
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

rooms: setup-tests ## Draw docs/rooms.svg anew, from the imports
	@.venv/bin/python scripts/rooms.py

reference: setup-tests ## Write docs/reference anew, from the code
	@.venv/bin/python scripts/reference.py

words: setup-tests ## Bring the dashboard's message catalogues up to date with its pages
	@.venv/bin/python scripts/words.py

screenshots: setup-tests ## Take pictures of the dashboard's pages and of an invoice, into data/screenshots and docs/pictures
	@scripts/system-packages.sh pictures
	@.venv/bin/python -m scripts.screenshots de
	@.venv/bin/python -m scripts.screenshots docs

lock: setup ## Bring the lock files up to date with requirements*.in (UPGRADE=1: and to the newest versions)
	@scripts/lock.sh $(if $(UPGRADE),--upgrade)

clean: ## Remove .venv and every cache, not the data
	rm -rf .venv dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
