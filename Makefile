# The commands of contributors. They need make and Python 3.11 or newer. uv is used if it is installed.
#   make test ARGS="-k schema"    passes arguments to pytest
#   make test PYTHON=python3.13   chooses the Python of a new .venv

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
TOGETHER := -n auto --dist loadfile --no-loadscope-reorder
export PYTHON
# Python stores its compiled files, because the tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint check planted lengths bench conformance torture torture-short slow-together slow-alone programs packages fix docs site release-check rooms rows walks lock clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: .venv-demo/.core ## show `toolwire demo`: an agent that fixes a bug, and one request in five wires; ARGS="--dialect anthropic --wire"
	@PYTHONPATH=src .venv-demo/bin/python -m toolwire demo $(ARGS)

test: .venv/.test ## run the fast suite, in several processes
	$(PYTEST) --timeout 60 $(TOGETHER) $(ARGS)

lint: .venv/.check ## check format, lint, types and imports; report words that are hard to read
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	-@$(BIN)/python scripts/words.py

check: lint ## run everything that a pull request must pass: format, lint, types, imports, tests
	$(PYTEST) --timeout 60 $(TOGETHER) $(ARGS)

planted: .venv/.test ## plant bugs one at a time in a copy, and report which the tests notice; ARGS="-k approval"
	@$(BIN)/python scripts/planted.py $(ARGS)

lengths: .venv/.test ## print how long ten programs of users are, beside the shortest of a peer
	@$(BIN)/python -m tests.programs.test_programs

bench: .venv-bench/.bench .venv-peers/.peers .venv-proxy/.proxy .venv/.test ## compare with peers, in one run
	.venv-bench/bin/python bench/run.py $(ARGS)
	.venv-bench/bin/python bench/formats.py
	$(BIN)/python -m bench.traces $(ARGS)
	$(BIN)/python -m bench.runs
	$(BIN)/python bench/price.py
	$(BIN)/python bench/gateway.py
	$(BIN)/python bench/gateway_load.py

conformance: .venv/.test ## run the suites of others, and write docs/conformance.md; ARGS="--short", ARGS="bfcl ai-sdk"
	PYTHONPATH=src $(BIN)/python -m conformance $(ARGS)

torture: .venv/.test ## run the slow tests, and every law over many generated values
	TOOLWIRE_TORTURE=full $(PYTEST) --timeout 3600 -m "slow or hypothesis" --hypothesis-profile torture $(ARGS)

torture-short: slow-together slow-alone ## run the slow tests, and every law over some generated values

slow-together: .venv/.test
	$(PYTEST) --timeout 300 -m "(slow or hypothesis) and not alone" --hypothesis-profile short $(TOGETHER) $(ARGS)

slow-alone: .venv/.test
	$(PYTEST) --timeout 300 -m "slow and alone" $(ARGS) || test $$? -eq 5 # 5: ARGS choose none of these

programs: .venv/.test ## install client programs, and run them with models of every wire; ARGS="-k codex"
	@$(BIN)/python scripts/programs.py
	$(PYTEST) --timeout 300 -m slow tests/programs $(ARGS)

fix: .venv/.check ## format, and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

packages: ## install the programs that the code tools and tests use: ripgrep, bubblewrap, chromium, zsh, fish (Debian)
	@scripts/packages

docs: .venv/.test ## generate pages from the code: support matrix, names for checkers, reference, options, providers, pictures
	$(BIN)/python scripts/support_matrix.py
	$(BIN)/python scripts/stub.py
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/options.py
	$(BIN)/python scripts/data_pages.py
	$(BIN)/python -m scripts.diagrams

site: .venv-site/.site ## build the site in site/ with Zensical, with its pages for machines; fail on a dead link
	@.venv-site/bin/python scripts/website.py $(ARGS)

release-check: .venv-release/.release ## build the commit twice, start it in bare environments, write dist/ with its bill of materials
	@.venv-release/bin/python scripts/release.py $(ARGS)

rooms: .venv/.test ## print rooms, layers and lines; ARGS="--at REVISION" those of an earlier commit
	@$(BIN)/python scripts/rooms.py $(ARGS)

rows: .venv/.test ## print the requirements and the tests that verify them; ARGS="R002", ARGS=--open
	@$(BIN)/python scripts/rows.py $(ARGS)

walks: .venv/.test ## print how many files and calls everyday operations use
	@$(BIN)/python scripts/walks.py

lock: ## resolve the dependencies again: uv.lock and requirements/ (needs uv)
	@scripts/lock $(ARGS)

clean: ## remove everything that the other commands created
	rm -rf .programs .venv .venv-bench .venv-conformance-* .venv-demo .venv-newest .venv-peers .venv-proxy .venv-release .venv-site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist site .site .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.%: requirements/%.txt pyproject.toml scripts/environment
	@scripts/environment .venv requirements/$*.txt
	@touch $@

.venv-bench/.%: requirements/%.txt pyproject.toml scripts/environment
	@scripts/environment .venv-bench requirements/$*.txt
	@touch $@

.venv-demo/.%: requirements/%.txt scripts/environment
	@scripts/environment .venv-demo requirements/$*.txt alone
	@touch $@

.venv-peers/.%: requirements/%.txt pyproject.toml scripts/environment
	@scripts/environment .venv-peers requirements/$*.txt
	@touch $@

.venv-proxy/.%: requirements/%.txt pyproject.toml scripts/environment
	@scripts/environment .venv-proxy requirements/$*.txt
	@touch $@

.venv-release/.%: requirements/%.txt scripts/environment
	@scripts/environment .venv-release requirements/$*.txt alone
	@touch $@

.venv-site/.%: requirements/%.txt scripts/environment
	@scripts/environment .venv-site requirements/$*.txt alone
	@touch $@
