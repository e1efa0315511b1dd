# The two commands of the README. Each makes .venv on a fresh machine and does its whole job.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
# Three for each of two cores: many tests wait for processes and timeouts, and not for a core.
JOBS ?= 6

# Tests start many processes: none of them should compile what another has compiled already,
# whatever the shell of the caller says.
export PYTHONDONTWRITEBYTECODE :=

# Numba's cache does not notice a change in another file (a kernel, a constant): drop it then.
SOURCES := $(shell find src -name '*.py')

.PHONY: demo test slow check docs reproduce clean
# Two installs into one environment at a time would spoil it.
.NOTPARALLEL:

# make demo KEEP=trial leaves all that the parties have in a folder.
demo: .venv/.core .venv/.kernels
	$(BIN)/python examples/demo.py $(if $(KEEP),--keep "$(KEEP)")

# Kernels and tests are compiled beside the checks, and before several processes of tests would
# compile the same ones.
test: .venv/.test .venv/.kernels
	@$(BIN)/python tests/warm_up.py trees & trees=$$!; \
	$(BIN)/python tests/warm_up.py sums & sums=$$!; \
	$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 & tests=$$!; \
	$(MAKE) --no-print-directory check; checked=$$?; \
	wait $$tests; wait $$trees && wait $$sums && exit $$checked
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

# Servers that are killed again and again, and all that takes as long.
slow: .venv/.test .venv/.kernels
	$(BIN)/python -m pytest -m slow

check: .venv/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/house.py check

# The experiments of all papers, one after another, or of one: make reproduce SEED=000. Then the
# pages of what came out, also if a paper took too long.
reproduce: .venv/.test .venv/.kernels
	$(BIN)/python -m reproduce $(SEED); ran=$$?; \
	$(BIN)/python -m reproduce page && exit $$ran

# Pages that are made of the code, then the site of all pages.
docs: .venv/.test
	$(BIN)/hedgerow errors --write docs/errors
	$(BIN)/python tools/house.py picture docs/explanation/rooms.svg
	$(BIN)/python tools/options_page.py docs/reference/options.md
	$(BIN)/python tools/requests_page.py docs/reference/requests.md
	$(BIN)/python tools/verbs_page.py docs/reference/verbs.md
	$(BIN)/python tools/metrics_page.py docs/reference/metrics.md
	$(BIN)/python tools/papers_page.py docs/reference/papers.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site is in site/: open site/index.html"

# A stamp and not .venv/bin/python: an environment whose making was interrupted has that too.
.venv/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hedgerow needs Python 3.11 or later; found " + sys.version.split()[0] + ". Pass another: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv --clear .venv
	@touch $@

.venv/.core: .venv/.made pyproject.toml constraints.txt
	@echo "Installing Hedgerow into .venv (a minute or two the first time)"
	$(PIP) install -c constraints.txt -e .
	@touch $@

# Not compiled: tests import only some of these 14,000 modules, and importing compiles them.
.venv/.test: .venv/.made pyproject.toml constraints.txt
	@echo "Installing Hedgerow with its test tools into .venv (a minute or two the first time)"
	$(PIP) install --no-compile -c constraints.txt -e '.[test]'
	@touch $@ .venv/.core

.venv/.kernels: .venv/.made $(SOURCES)
	@find src \( -name '*.nbi' -o -name '*.nbc' \) -delete
	@touch $@

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
