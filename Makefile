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

.PHONY: demo test coverage lint docs bench history peers wheels wheel release-check lowest fuzz faults atlas clean

demo: .venv/.run
	$(BIN)/evenrank demo
	@echo
	@echo "To use the command:  source $(BIN)/activate,  then  evenrank --help"

test: .venv/.dev
	$(BIN)/python -m pytest -q $(SPREAD)

# the quick tests, without the subprocesses that coverage does not see; a lower share than FLOOR fails
COVERED := tests/metrics tests/ranks tests/stats tests/published tests/internal tests/graphs \
	tests/models/test_models.py
FLOOR := 75
coverage: .venv/.dev
	$(BIN)/python -m pytest -q $(SPREAD) --cov --cov-report=term --cov-report=html:.venv/coverage \
		--cov-fail-under=$(FLOOR) $(COVERED)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/support/docstrings.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/check-jsonschema --check-metaschema docs/schema/*.json
	if command -v actionlint; then actionlint; fi  # which is not on PyPI as a program

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

# append today's ratios to benchmarks/history.csv
history: .venv/.run
	$(BIN)/python benchmarks/history.py

# tests that need PyKEEN, torch and other libraries, or a GPU; not part of `make test`, as these are large
PEERS := tests/test_case_study.py tests/test_first_hour.py tests/test_peers.py tests/integrations \
	tests/ranks/test_presets.py tests/ranking/test_device.py tests/ranking/test_distributed.py \
	tests/ranking/test_torch_modules.py tests/fuzz/test_fuzz.py $(wildcard tests/models/test_checkpoints*.py)
peers: .venv/.peers
	$(BIN)/python -m pytest -q $(SPREAD) $(PEERS)

# the source distribution and a wheel per platform, with cross-compiled kernels, in dist
wheels: .venv/.release
	$(BIN)/python tools/wheels.py dist

# test the wheel for this platform outside the source tree, for what it could lack (kernels, data, pages,
# commands); it is built from the source distribution, and so are its tests
WHEEL := test_architecture.py cli graphs/test_graphs.py graphs/test_registry.py models/test_models.py ranks/test_ranks.py
wheel: wheels
	rm -rf .venv/wheel .venv/sdist .venv/here
	mkdir .venv/sdist && tar -xzf dist/*.tar.gz --strip-components 1 -C .venv/sdist
	$(BIN)/python tests/support/sdist.py .venv/sdist
	$(PYTHON) -m venv .venv/wheel
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-index --no-deps --only-binary :all: \
		--find-links dist --dest .venv/here evenrank
	.venv/wheel/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt "$$(ls .venv/here/*.whl)[dev]"
	cd .venv/wheel && bin/python -c "import evenrank; assert 'site-packages' in evenrank.__file__"
	cd .venv/wheel && EVENRANK_SHARED="$${EVENRANK_SHARED:-$(abspath ../shared)}" \
		bin/python -m pytest -q $(SPREAD) -c ../sdist/pyproject.toml --rootdir ../sdist $(WHEEL:%=../sdist/tests/%)
	cd .venv/wheel && bin/evenrank explore -o explorer.html
	cd .venv/wheel && bin/evenrank report ../../examples/case_study/ranks/nations-*.parquet -o report.html

# a dry run of a release: everything that is uploaded, checked, and the kernels of other machines, emulated
release-check: wheel
	$(BIN)/python -m pytest -q $(SPREAD) tests/ranking/test_build.py tests/ranking/test_machines.py tests/test_release.py

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

# rebuild the bundled numbers of candidates from the files of the data sets, and the content of the explorer from these
atlas: .venv/.run
	$(BIN)/python -c "import sys; from evenrank.graphs import sources; sources.write_package(sys.argv[1:])" \
		$(sort $(dir $(foreach root,$(DATA),$(foreach file,train* ref_ent_ids* candidates.tsv*,\
		$(wildcard $(root)/*/$(file) $(root)/*/*/$(file))))))
	$(BIN)/python -c "from evenrank.report import explorer; explorer.store()"

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

.venv/.release: .venv/.dev
	$(INSTALL) --editable ".[dev,release]"
	touch $@

.venv/.peers: .venv/.dev
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable ".[dev,peers]"
	touch $@

clean:
	rm -rf .venv dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
