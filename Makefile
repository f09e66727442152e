# `make help` lists the targets. Everything runs in .venv, which the first target creates.

PYTHON ?= python3
TORCH  ?= torch==2.13.0
EXTRAS ?= dev
# Processes of pytest: more than there are CPUs, because some tests wait. nproc would print
# OMP_NUM_THREADS if that is set.
CPUS    := $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
WORKERS ?= $(shell expr $(CPUS) + $(CPUS) / 2)
SAMPLE := build/sample.zip
SUBMISSION ?= build/sample.zip
# Students choose names of files: neither make nor the shell may run what is in one.
unexport SUBMISSION
grade: export NAMED := $(value SUBMISSION)

# Let Python write its bytecode files, because the tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Two steps of the installation: what grading needs, and the rest.
GRADES := .venv/.grades
INSTALLED := .venv/.installed
# On all CPUs, where pip uses one. A sandbox cannot write what it compiles. Some packages bring files that are no Python.
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib || true
WORKFLOWS := $(wildcard .github/workflows/*.yml examples/github/*.yml grader/publish/bundle/student/.github/workflows/*.yml)

.PHONY: help install grade test quick proof check workflows validate stubs handout bundle bench

help:            ## List these targets
	@sed -n 's/^\([a-z]*\): .*## /\1\t/p;s/^\([a-z]*\):  *## /\1\t/p' Makefile | expand -t 12

install: $(INSTALLED) bubblewrap ## Create .venv and install everything, including bubblewrap if it is missing

grade: $(GRADES) bubblewrap $(filter $(SAMPLE),$(value SUBMISSION)) ## Grade a submission: make grade SUBMISSION=path (default: the sample)
	@$(BIN)/grader grade "$$NAMED" $(ARGS)

# No test looks at logs, and capturing them takes time in each.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -p no:logging
# The workers of pytest already use all CPUs.
test quick proof: export OMP_NUM_THREADS := 1

test: install browser ## Run the tests of the grader, the course and the handout (ARGS=--require-browser: fail without Chromium)
	$(PYTEST) -m "not proof" $(ARGS)

quick: install   ## Run only the tests that need no sandbox, no other process and no browser
	$(PYTEST) -m "not slow and not proof" $(ARGS)

proof: install browser ## Run every test, including those that take minutes (ARGS=--third=COMMIT: a third of what `make test` leaves out)
	$(PYTEST) $(ARGS)

check: workflows ## Run ruff and mypy, and check the stubs and the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/grader stubs --check

workflows: $(INSTALLED) ## Check the workflows against GitHub's schema and for unsafe patterns, without a network
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/zizmor --offline --no-progress --quiet --persona pedantic $(WORKFLOWS)

validate: install ## Prove the hidden tests, with mutants; writes matrix.md (takes about a quarter of an hour on two cores)
	$(BIN)/grader validate --mutants --matrix matrix.md

stubs: $(INSTALLED)   ## Write assignment/ from grader/solutions/reference
	$(BIN)/grader stubs

handout: $(INSTALLED) browser ## Build the handout: handout/build/site/index.html and handout/build/handout.pdf
	$(BIN)/python -m handout.site

bundle: handout  ## Write student.zip, the bundle for students
	$(BIN)/grader release student student.zip

bench: install   ## Compare the grader with plain pytest, for one submission and for fifty; writes benchmarks/results
	$(BIN)/python benchmarks/single.py --json benchmarks/results/single.json
	$(BIN)/python benchmarks/batch.py --json benchmarks/results/batch.json

$(SAMPLE): examples/build.py $(wildcard examples/sample/*.py assignment/*.py) | $(GRADES)
	@$(BIN)/python examples/build.py $(SAMPLE)

$(GRADES): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; call make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile "$(TORCH)"
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[assignment,grader]"
	@$(COMPILE)
	@touch $(GRADES)

$(INSTALLED): $(GRADES)
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[assignment,$(EXTRAS)]"
	@$(COMPILE)
	@touch $(INSTALLED)

.PHONY: bubblewrap browser
bubblewrap:
	@command -v bwrap >/dev/null || sh scripts/install.sh bubblewrap "to isolate submissions"

browser: $(INSTALLED)
	@$(BIN)/python -m handout.site.browser 2>/dev/null || sh scripts/install.sh chromium "for the handout's PDF and the tests of its pages" || true
