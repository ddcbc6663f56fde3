# Two commands do all the set-up: `make demo` and `make test`.
VENV := .venv
PY := $(VENV)/bin/python
SPEED ?= 20000
PORT ?= 4566

.PHONY: demo test test-deep bench check install format wheels clean

$(VENV)/.installed: pyproject.toml
	@test -x $(PY) || { echo "making the virtual environment in $(VENV)"; python3 -m venv $(VENV); }
	@echo "installing streamsql and its dependencies (the first time takes a minute)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	@echo "installing what the tests need"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	@$(VENV)/bin/streamsql demo --speed $(SPEED) --port $(PORT)

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell README.md CHANGELOG.md CONTRIBUTING.md docs streamsql server repl

test: check
	@# what fails in the crowd is run once more alone, with both outcomes on the screen
	$(VENV)/bin/pytest -q -n 2 tests || \
	  $(VENV)/bin/pytest -q --last-failed --last-failed-no-failures none tests

test-deep: $(VENV)/.installed-dev
	STREAMSQL_DEEP=1 $(VENV)/bin/pytest -q -n 2 -p no:cacheprovider tests/oracle tests/double_run tests/plan tests/dialect tests/operators tests/engine tests/state tests/kernels tests/server/test_cost_bench.py

bench: $(VENV)/.installed-dev
	$(VENV)/bin/streamsql bench

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

wheels: $(VENV)/.installed-dev
	$(PY) -m build --wheel --outdir dist .

clean:
	rm -rf $(VENV) build dist *.egg-info
