BIN := .venv/bin
SEED ?=
ARGS ?=
LOCK ?=
MODEL ?=
# More than cores: tests wait for processes that they start.
JOBS ?= 3
seed_suffix := $(if $(SEED),_seed$(SEED))
demo_runs := runs/demo_vineppo$(seed_suffix) runs/demo_ppo$(seed_suffix)
demo_report := runs/demo_report$(seed_suffix)

# A file of tests stays in one process, whose tests share what they make.
pytest := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-full bench check size pages format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: ## make .venv from the lock file (LOCK=requirements/cpu.lock picks another)
	@requirements/setup.sh $(LOCK)

# Neither the demo nor the tests need the network.
demo test test-full bench: export HF_HUB_OFFLINE := 1
demo test test-full bench: export VLLM_NO_USAGE_STATS := 1
demo test test-full bench: export TOKENIZERS_PARALLELISM := false
test test-full: export WANDB_MODE := offline

demo: setup ## VinePPO and PPO on the embedded policy, and a report (SEED=2 for another seed)
	for name in vineppo ppo; do \
		$(BIN)/vineppo train configs/demo_$${name}.jsonnet --run-dir runs/demo_$${name}$(seed_suffix) \
			$(if $(SEED),--set seed=$(SEED)) || exit $$?; \
	done
	$(BIN)/python -m analysis report $(demo_runs) --out $(demo_report)

test: setup ## run the tests, in minutes (ARGS='tests/credit -x' for some, JOBS=0 in this process)
	$(pytest) --durations=10 $(ARGS)

test-full: setup ## run all tests, the grids and the long ones as well
	$(pytest) --durations=20 -m 'slow or not slow' $(ARGS)

bench: setup ## measure speed and write benchmarks/README.md (MODEL=DIRECTORY adds a real model); again: resume
	$(BIN)/python -m benchmarks $(if $(MODEL),--model $(MODEL)) $(ARGS)

check: setup ## format, lint and types, changing nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

size: setup ## count lines and files of each part, config fields, the longest functions
	$(BIN)/python docs/size.py

pages: setup ## write the pages' tables and numbers from committed files
	$(BIN)/python docs/pages.py

format: setup ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove caches; runs and .venv stay
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build *.egg-info
	find . \( -path ./.git -o -path ./.venv -o -path ./runs \) -prune -o \
		-name __pycache__ -type d -prune -exec rm -rf {} +
