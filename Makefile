# make demo    train and evaluate a first encoder; the last line that it prints is the path of the report
# make test    run all checks that a change has to pass
#
# Both install isotune into .venv with the versions in constraints.txt, and install again when these versions change.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || echo python3)

PINS := constraints.txt pyproject.toml
PIP := .venv/bin/pip --disable-pip-version-check install -qq --constraint constraints.txt

.PHONY: demo test

demo: .venv/installed
	@run=runs/demo-$$(date +%Y%m%d-%H%M%S) && .venv/bin/isotune train stsb-open:train --out $$run

test: .venv/installed-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/pytest -n 2 --dist worksteal

.venv/installed: $(PINS)
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable ".[dev]"
	@touch $@
