# The front door. The work is in CMakeLists.txt; `make help` lists what is here.
#
# Variables: PRESET (release), JOBS (all cores), CMAKE_ARGS (further options of cmake), PREFIX (for install),
# TEST_ARGS (further options of ctest, for instance TEST_ARGS='-R select'), COMPARE_ARGS (of bench/compare/compare.py).

PRESET ?= release
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
CMAKE_ARGS ?=
TEST_ARGS ?=
COMPARE_ARGS ?=

# Kernels of another processor are not built here.
foreign_kernels = $(if $(filter aarch64 arm64,$(shell uname -m)),x86,arm)

build_folder = $(if $(filter release,$(1)),build,build-$(1))
configure = cmake --preset $(1) $(CMAKE_ARGS) >/dev/null
compile = cmake --build $(call build_folder,$(1)) -j $(JOBS)
ctest = ctest --test-dir $(call build_folder,$(1)) -j $(JOBS) --output-on-failure --no-tests=error $(TEST_ARGS)

.PHONY: all run test help asan tsan fuzz soak bench compare tidy format check install package clean
.DEFAULT_GOAL := all

all: ## build everything; the program is build/qsa
	@tools/setup.sh
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET))

run: ## the main job: make a small real model, read it a long ledger, ask it eight questions
	@tools/setup.sh
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET)) --target qsa_program
	@$(call build_folder,$(PRESET))/qsa demo

test: ## build everything and run every test
	@tools/setup.sh test
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET))
	@$(call ctest,$(PRESET))

asan: ## the tests under address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory test PRESET=asan TEST_ARGS="-LE slow $(TEST_ARGS)"

tsan: ## libqsa's tests of threads under the thread sanitizer
	@$(MAKE) --no-print-directory test PRESET=tsan TEST_ARGS="-L threads $(TEST_ARGS)"

fuzz: ## attack the readers of foreign bytes and the verbs, two minutes in all (libFuzzer, so with clang)
	@tools/setup.sh fuzz
	@$(call configure,clang)
	@$(call compile,clang) --target fuzz

soak: ## a million random verbs against the naive oracle, and ten thousand at 2,044 to 2,060 tokens (minutes)
	@tools/setup.sh
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET)) --target test_life_walk
	@$(call build_folder,$(PRESET))/tests/lifecycle/test_life_walk soak 1000000 10000

bench: ## measure the layers by depth, and fork, rewind, shift, snapshots (writes 1 GB into the build folder, and removes it)
	@tools/setup.sh
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET)) --target qsa_program --target bench_lifecycle
	@$(call build_folder,$(PRESET))/qsa bench
	@$(call build_folder,$(PRESET))/bench/bench_lifecycle 32768 $(call build_folder,$(PRESET))

compare: ## llama.cpp and qsa on one model and one text, in turn: ratios by depth (builds llama.cpp once; half an hour)
	@tools/setup.sh
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET)) --target compare_ours
	@bench/compare/compare.py --build $(call build_folder,$(PRESET)) $(COMPARE_ARGS)

tidy: ## clang-tidy over our sources
	@tools/setup.sh check
	@$(call configure,$(PRESET))
	@git ls-files 'src/*.c' 'ggml/*.c' 'engine/*.c' 'console/*.c' 'oracle/*.c' 'verify/*.c' 'bench/*.c' 'cli/*.c' ':!src/kernels/$(foreign_kernels)' | xargs -P $(JOBS) -n 4 clang-tidy --quiet -p $(call build_folder,$(PRESET))

format: ## clang-format over our sources
	@tools/setup.sh check
	@tools/check_format.sh --fix

check: ## the quick checks: format, layers, exported symbols
	@tools/setup.sh check
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET))
	@tools/check_format.sh
	@python3 tools/check_layers.py
	@tools/check_exports.sh $(call build_folder,$(PRESET))

install: ## build and install program, library, headers and manual under PREFIX (default /usr/local)
	@tools/setup.sh
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET)) --target qsa qsa_shared qsa_program
	@cmake --install $(call build_folder,$(PRESET)) --prefix $(PREFIX)

package: ## write a .deb into the build folder
	@tools/setup.sh package
	@$(call configure,$(PRESET))
	@$(call compile,$(PRESET)) --target qsa qsa_shared qsa_program
	@cd $(call build_folder,$(PRESET)) && cpack >cpack.log || { cat cpack.log; exit 1; }
	@ls $(call build_folder,$(PRESET))/*.deb

clean: ## remove what was built (the fetched ggml sources stay in the cache folder)
	rm -rf build build-*/

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
