# make demo          train and evaluate a first encoder; the last line that it prints is the path of the report
# make test          run all checks that a change has to pass; the last lines say which tests were skipped, and why
# make test-slow     run the slow tests
# make hostile       run the hostile tests, which hold waiting times, by themselves; the last lines are their figures
# make docs          build the documentation site into site/; a dead link is an error
# make package       build wheel and sdist into dist/, and list what they need, with versions and licences (CycloneDX)
# make test-package  build, and run the tests of the core with the wheel in a bare environment of PYTHON
# make test-oldest   run the tests of the core with the lowest version of each dependency
# make audit         look up known weaknesses of the pinned versions; needs pypi.org
#
# What is installed has the versions in constraints.txt, and is installed again into .venv when these change.

SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)

PINS := constraints.txt pyproject.toml
PIP := .venv/bin/pip --disable-pip-version-check install --no-compile --constraint constraints.txt
PIP_PACKAGE := PIP_PYTHON=.venv-package/bin/python $(PIP) -qq

# Of what pip says, these lines show how far it is. They name each package that it has fetched.
SHOWN := -e 's/^ *Downloading /  /p' -e 's/^ *Using cached /  /p' -e 's/^Installing collected .*/  unpacking them/p'

CORE := tests/data tests/kernels tests/losses tests/recipes tests/views

.PHONY: audit demo docs hostile package test test-oldest test-package test-slow

demo: .venv/installed
	@run=runs/demo-$$(date +%Y%m%d-%H%M%S) && .venv/bin/isotune train stsb-open:train --out $$run

test: .venv/installed-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/pytest -n 2 --dist worksteal -r s

test-slow: .venv/installed-dev
	.venv/bin/pytest -m slow -v -n 2 --dist worksteal --durations 40 --ignore tests/hostile

hostile: .venv/installed-dev
	.venv/bin/pytest -m slow -s tests/hostile

docs: .venv-docs/installed
	PYTHONPATH=src NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build
	@echo site/index.html

# The date of the last commit is that of all files, so that the same commit gives the same bytes.
package: .venv/installed-dev .venv-tools/installed
	rm -rf dist .venv-package
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) .venv/bin/python -m hatchling build --directory dist
	$(PYTHON) -m venv --without-pip .venv-package
	$(PIP_PACKAGE) dist/*.whl
	.venv-tools/bin/cyclonedx-py environment .venv-package --pyproject pyproject.toml --output-reproducible \
		--output-file dist/isotune.cdx.json

test-package: package
	$(PIP_PACKAGE) pytest hypothesis datasets
	.venv-package/bin/pytest $(CORE)

# Old releases warn of what newer ones deprecate.
test-oldest: .venv-tools/installed
	rm -rf .venv-oldest
	.venv-tools/bin/uv venv --quiet --python $(PYTHON) .venv-oldest
	.venv-tools/bin/uv pip install --quiet --python .venv-oldest/bin/python --resolution lowest-direct \
		--editable ".[hub]" "pytest>=9" "hypothesis>=6.130"
	.venv-oldest/bin/pytest -W ignore::DeprecationWarning $(CORE)

audit: .venv-tools/installed
	.venv-tools/bin/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip

.venv-tools/installed:
	$(PYTHON) -m venv .venv-tools
	.venv-tools/bin/pip --disable-pip-version-check install -qq cyclonedx-bom==7.5.0 pip-audit==2.10.1 uv==0.13.9
	@touch $@

.venv-docs/installed:
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip --disable-pip-version-check install -qq mike==2.2.0 mkdocs-material==9.8.1 \
		mkdocstrings-python==2.0.11 \
		$$(grep -E "^(cyclopts|lazy-loader|pydantic|pydantic-core|rich|ruff)==" constraints.txt)
	@touch $@

.venv/installed: $(PINS)
	@echo "installing isotune and what it needs into .venv, which takes some minutes"
	@$(PYTHON) -m venv .venv
	@set -o pipefail; $(PIP) --editable . | sed -nu $(SHOWN)
	@touch $@

.venv/installed-dev: .venv/installed
	@echo "installing what the tests need into .venv, which takes some minutes"
	@set -o pipefail; $(PIP) --editable ".[dev]" | sed -nu $(SHOWN)
	@touch $@
