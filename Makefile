# Every target installs what it needs into .venv; only Python 3.11 or newer is required.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# compile to bytecode, which pip does not do for editable installs, so that the first import is not slower
COMPILE := $(BIN)/python -m compileall -q src

# files that an installation depends on; installing compiles the kernels
BUILD := pyproject.toml constraints.txt hatch_build.py src/evenrank/ranking/engine/_kernels.c

# folders with one subfolder per data set, for `make atlas`
DATA ?= ../shared/datasets ../shared/benchmarks

# run tests on all cores; tests of one file run in one process, since they share fixtures
SPREAD := --numprocesses auto --dist loadfile

# what `make fuzz` and `make faults` try: SEED makes it another one, COUNT how many times
SEED ?= 1
COUNT ?= 200

.PHONY: demo test lint docs bench peers wheel lowest fuzz faults atlas clean

demo: .venv/.run
	$(BIN)/evenrank demo
	@echo
	@echo "To use the command:  source $(BIN)/activate,  then  evenrank --help"

test: .venv/.dev
	$(BIN)/python -m pytest -q $(SPREAD)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/support/docstrings.py

# the documentation site: build/docs/index.html, which needs no network; warnings and broken links are errors
docs: .venv/.docs
	$(BIN)/python docs/site build/source build/docs

bench: .venv/.peers
	$(BIN)/python benchmarks/null.py
	$(BIN)/python benchmarks/tails.py
	$(BIN)/python benchmarks/chance.py
	$(BIN)/python benchmarks/answers.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/rank.py
	$(BIN)/python benchmarks/together.py
	$(BIN)/python benchmarks/evaluator.py
	$(BIN)/python benchmarks/scorers.py
	$(BIN)/python benchmarks/atlas.py
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/sampled.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/startup.py

# tests that need PyKEEN, torch and other libraries, or a GPU; not part of `make test`, as these are large
PEERS := tests/test_case_study.py tests/test_first_hour.py tests/test_peers.py tests/integrations \
	tests/ranks/test_presets.py tests/ranking/test_device.py tests/ranking/test_distributed.py \
	tests/ranking/test_torch_modules.py tests/fuzz/test_fuzz.py $(wildcard tests/models/test_checkpoints*.py)
peers: .venv/.peers
	$(BIN)/python -m pytest -q $(SPREAD) $(PEERS)

# test the built wheel outside the source tree, for files it could lack (kernels, data, pages, commands); it
# is built from the source distribution, and so are its tests
WHEEL := test_architecture.py cli graphs models/test_models.py ranks/test_ranks.py
wheel: .venv/.dev
	rm -rf dist .venv/wheel .venv/sdist
	$(BIN)/python -m build --outdir dist . > /dev/null
	mkdir .venv/sdist && tar -xzf dist/*.tar.gz --strip-components 1 -C .venv/sdist
	$(BIN)/python tests/support/sdist.py .venv/sdist
	$(PYTHON) -m venv .venv/wheel
	.venv/wheel/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt "$$(ls dist/*.whl)[dev]"
	cd .venv/wheel && bin/python -c "import evenrank; assert 'site-packages' in evenrank.__file__"
	cd .venv/wheel && EVENRANK_SHARED="$${EVENRANK_SHARED:-$(abspath ../shared)}" \
		bin/python -m pytest -q $(SPREAD) -c ../sdist/pyproject.toml --rootdir ../sdist $(WHEEL:%=../sdist/tests/%)
	cd .venv/wheel && bin/evenrank explore -o explorer.html
	cd .venv/wheel && bin/evenrank report ../../examples/case_study/ranks/nations-*.parquet -o report.html

# test the oldest versions of the dependencies that are allowed
LOWEST := metrics ranks stats published models internal cli graphs ranking/test_engine.py ranking/test_resume.py
lowest: .venv/bin/python
	rm -rf .venv/lowest
	$(PYTHON) -m venv .venv/lowest
	$(BIN)/python tests/support/floors.py pandas arrow dask remote report > .venv/lowest.txt
	.venv/lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv/lowest.txt \
		--editable ".[pandas,arrow,dask,remote,report]" hypothesis mpmath pytest pytest-xdist
	.venv/lowest/bin/python -m pytest -q $(SPREAD) $(LOWEST:%=tests/%)

# damage files of every format COUNT times each; kill and fail commands that write COUNT times
fuzz: .venv/.dev
	$(BIN)/python tests/fuzz/fuzz.py --seed $(SEED) --count $(COUNT) --keep .venv/fuzz

faults: .venv/.dev
	$(BIN)/python tests/fuzz/faults.py --seed $(SEED) --count $(COUNT)

# rebuild the bundled numbers of candidates from the files of the data sets
atlas: .venv/.run
	$(BIN)/python -c "import sys; from evenrank.graphs import sources; sources.write_package(sys.argv[1:])" \
		$(sort $(dir $(foreach root,$(DATA),$(foreach file,train* ref_ent_ids* candidates.tsv*,\
		$(wildcard $(root)/*/$(file) $(root)/*/*/$(file))))))

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.run: .venv/bin/python $(BUILD)
	$(INSTALL) --editable .
	$(COMPILE)
	touch $@

.venv/.dev: .venv/bin/python $(BUILD)
	$(INSTALL) --editable ".[dev]"
	$(COMPILE)
	touch $@ .venv/.run

.venv/.docs: .venv/bin/python $(BUILD)
	$(INSTALL) --editable ".[docs]"
	$(COMPILE)
	touch $@ .venv/.run

.venv/.peers: .venv/.dev
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable ".[dev,peers]"
	touch $@

clean:
	rm -rf .venv dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
