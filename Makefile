# Two commands on a fresh machine with Python >= 3.11 and make: `make reproduce` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# A file's tests stay together, for what they share; tests/conftest.py puts the files that take longest first.
PYTEST := $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: venv reproduce evidence test test-long torture mutate lint docs bench wheel peers clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tokenmargin needs Python >= 3.11: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[figures,fit,cluster,docs,test,lint]'
	@touch $@

# The peers that some tests and the benchmarks compare with; their tests are skipped, with a reason, where they are absent.
# torch is pinned to its CPU build: the registry's newest would pull gigabytes of CUDA.
peers: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt cvxopt torch==2.13.0

# Every figure at smoke size: results/<figure>/smoke/ and results/index.html; and the page of a fitted corpus,
# results/fit/report.html.
reproduce: venv
	$(BIN)/tokenmargin reproduce all --preset smoke --out results
	$(BIN)/tokenmargin fit --out results/fit

# Every claim on 50 random instances inside its hypotheses, and what must not pass for it on the same: minutes.
evidence: venv
	$(BIN)/tokenmargin check --instances 50 --out docs/results/evidence.json
	$(BIN)/tokenmargin check --markdown --evidence docs/results/evidence.json > docs/claims.md
	$(BIN)/tokenmargin list --errata > docs/errata.md

# Types are checked beside the tests, which leave a core idle now and then; either of the two fails the command.
test: venv
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	@$(BIN)/mypy & types=$$!; $(PYTEST); tests=$$?; wait $$types && exit $$tests

# What takes minutes to break: kills at random moments, and whatever else lies in tests/torture.
torture: venv
	$(BIN)/python -m tests.torture

# 300 single changes of the code, each against the tests that call it; about an hour on two cores. SEED=2: 300 others.
SEED ?= 1
mutate: venv
	$(BIN)/python -m tests.mutation reach
	$(BIN)/python -m tests.mutation run --count 300 --seed $(SEED)

# The tests marked long, which `make test` leaves out, compiled as a user's programs are and not as tests/conftest.py has it.
test-long: venv
	XLA_FLAGS= $(PYTEST) -m long

lint: venv
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

docs: venv
	$(BIN)/mkdocs build --strict --site-dir site

wheel: venv
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

# Writes benchmarks/RESULTS.md; GPU sections are left as they are. `make bench SECTIONS='flow "one_layer --scaling"'` runs
# some of them, which are replaced one by one.
SECTIONS ?= att_svm geometries "geometries --large" "geometries --clarabel" flow trials \
	"one_layer --rounds 21" "one_layer --scaling" "one_layer --memory" "two_layer --rounds 21" \
	"first_minute --width 16" corpus_svm text parallel classifier checkpoint_cost determinism explainers
bench: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]' torch==2.13.0
	$(BIN)/python -m benchmarks.results $(SECTIONS)

clean:
	rm -rf $(VENV) results build dist site
