# `make help` lists what there is. Everything runs in .venv, which the first call makes.

PYTHON ?= python3
TORCH  ?= torch==2.13.0
EXTRAS ?= dev
SUBMISSION ?= examples/sample.zip

BIN := .venv/bin
INSTALLED := .venv/.installed
WORKFLOWS := $(wildcard .github/workflows/*.yml grader/publish/bundle/student/.github/workflows/*.yml)

.PHONY: help install grade test quick check workflows validate stubs handout bundle reference bench

help:            ## List these targets
	@sed -n 's/^\([a-z]*\): .*## /\1\t/p;s/^\([a-z]*\):  *## /\1\t/p' Makefile | expand -t 12

install: $(INSTALLED) bubblewrap ## Make .venv and install everything, bubblewrap too where it is missing

grade: install   ## Grade a submission: make grade SUBMISSION=path (default: the sample)
	@$(BIN)/grader grade "$(SUBMISSION)" $(ARGS)

test: install browser ## Run every test of the grader, the suite and the handout (ARGS=--require-browser: fail without a Chromium)
	$(BIN)/python -m pytest -n auto --dist loadgroup $(ARGS)

quick: install   ## Run the tests that take seconds
	$(BIN)/python -m pytest -n auto --dist loadgroup -m "not slow" $(ARGS)

check: workflows ## ruff, mypy, stubs that have drifted from their reference, and the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/grader stubs --check

workflows: $(INSTALLED) ## Hold the workflows against GitHub's schema, and look for what is unsafe in them; no network
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/zizmor --offline --no-progress --quiet --persona pedantic $(WORKFLOWS)

validate: install ## Prove the suite, mutants included (a quarter of an hour); writes matrix.md
	$(BIN)/grader validate --mutants --matrix matrix.md

stubs: $(INSTALLED)   ## Write assignment/ from grader/solutions/reference
	$(BIN)/grader stubs

handout: $(INSTALLED) browser ## Build the handout: handout/build/site/index.html and handout/build/handout.pdf
	$(BIN)/python -m handout.site

bundle: handout  ## Write student.zip, what students get
	$(BIN)/grader release student student.zip

reference: $(INSTALLED) ## Write build/reference.zip: the reference solutions, as a submission
	$(BIN)/python scripts/reference_submission.py build/reference.zip

bench: install   ## Measure the grader beside plain pytest; writes benchmarks/results/single.json
	$(BIN)/python benchmarks/single.py --json benchmarks/results/single.json $(ARGS)

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; call make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $(INSTALLED)

.PHONY: bubblewrap browser
bubblewrap:
	@command -v bwrap >/dev/null || sh scripts/install.sh bubblewrap "to isolate submissions"

browser: $(INSTALLED)
	@$(BIN)/python -m handout.site.browser 2>/dev/null || sh scripts/install.sh chromium "for the handout's PDF and the tests of its pages" || true
