# make demo    train and evaluate a first encoder from nothing; the last line printed is the path of its report
# make test    everything a change has to pass
#
# Both build .venv, with the versions in constraints.txt, and rebuild what changed when the pins did.

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
