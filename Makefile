# Two commands: `make demo` shows what counterpoint does, `make test` checks it.
PYTHON ?= python3
VENV := .venv
LOWEST := .venv-lowest
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow test-lowest lint docs pictures release-check figures clean help

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# A stamp is newer than what it was made from, so a second run installs nothing.
$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[train]"
	@touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[dev]"
	@touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e ".[docs]"
	@touch $@ $(VENV)/installed

demo: $(VENV)/installed  ## train and assess six ensembles; report and figures go to out/demo
	$(VENV)/bin/counterpoint demo --out out/demo

test: lint  ## ruff, mypy and pytest with coverage
	$(VENV)/bin/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=loadfile --cov --cov-report=term

test-slow: $(VENV)/installed-dev  ## the long tests, which `make test` leaves out
	$(VENV)/bin/python -m pytest -m slow

# Examples in docstrings are left out: older NumPy prints numbers differently. Older libraries use what others deprecated.
test-lowest:  ## the tests with the lowest versions that pyproject.toml allows, on the built wheel
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c .ci/lowest.txt ".[dev]"
	$(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning --numprocesses=auto --maxprocesses=8 --dist=loadfile tests

lint: $(VENV)/installed-dev  ## ruff and mypy alone
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(VENV)/installed-docs  ## the site, into out/docs; a warning or a dead link fails
	OMP_NUM_THREADS=1 $(VENV)/bin/sphinx-build -W --keep-going -q -j auto -d out/doctrees docs out/docs
	@echo "out/docs/index.html"

pictures: $(VENV)/installed-dev  ## the pictures of reports and of the demo in docs/images; needs Chromium
	$(VENV)/bin/python docs/draw_pictures.py

release-check: $(VENV)/bin/python  ## build wheel and sdist, install the wheel in a fresh environment and use it
	$(PIP) "build>=1.2" "twine>=6.0"
	$(VENV)/bin/python .ci/release_check.py

figures: $(VENV)/installed  ## the paper's figures of the theory, into out
	for n in 1 2 3 4 5; do $(VENV)/bin/python -m paper figure-$$n --out out || exit 1; done

clean:  ## remove the environment and everything made by the commands
	rm -rf $(VENV) $(LOWEST) out docs/api docs/gallery docs/project .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
