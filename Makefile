# The developer's commands. Each target installs what it needs, except for the prerequisites in
# README.md: rustup with the pinned toolchain, and a C compiler for linking.

CARGO ?= cargo
# Seconds per fuzz target in the tests; raise it to search for bugs.
FUZZ_SECONDS ?= 3
# Concurrent tests: most of them wait for a socket, a disk or another process.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# The steps of `make test`, in order.
STEPS = format lint unit miri browser mutants-sample bench-tests docs deny readme fuzz-smoke

.PHONY: help demo test check miri bench bench-tests browser format lint unit unit-changed mutants mutants-sample fuzz-smoke docs deny readme pictures tools compare clean

help: ## The list of targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

demo: ## Runs an exchange, 50 simulated DSPs and traffic: watch auctions clear
	$(CARGO) run --release -p vickrey -- demo

test: ## All checks before a change lands, with the time of each step
	scripts/steps $(STEPS)

check: ## Quick checks after a small change: formatting, lints, and unit tests of the packages that differ from main
	scripts/steps format lint unit-changed

format: ## Formatting
	$(CARGO) fmt --all --check

lint: ## Lints as errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

tools: ## Installs the tools that tests use besides the toolchain
	scripts/tools

unit: tools ## Unit, property, integration and simulation tests, with fixed seeds
	PROPTEST_RNG_SEED=1 $(CARGO) test --workspace --locked --no-fail-fast

miri: ## The lock's tests under Miri; scripts/miri --all has the cache's directory too
	scripts/miri

browser: ## The pages in headless browsers, if there is one or it can be installed
	scripts/browser

unit-changed: ## Unit tests of the packages that differ from main
	scripts/unit-changed

mutants: ## Plants every known bug in a copy of the code, and expects a test to fail
	scripts/mutants

mutants-sample: ## Plants five of these bugs, chosen by the hash of the commit
	scripts/mutants --sample 5

bench-tests: ## Tests of the bench driver, the pictures, the comparison and the Go peers, if Python and Go are installed
	if command -v python3 >/dev/null; then python3 bench/test_run.py && python3 bench/test_log.py && python3 bench/test_budgets.py && python3 bench/test_pacing.py && python3 bench/test_live.py && python3 bench/test_cache.py && python3 bench/test_lookup.py && python3 scripts/test_pictures.py && python3 compat/test_compare.py && python3 clients/python/test_vickrey_pacer.py; fi
	if command -v go >/dev/null; then for peer in bench/peers/go-* crates/exchange/serve/tests/it/strangers/go-dsp; do (cd $$peer && go vet ./... && go test ./...) || exit 1; done; fi

docs: ## Documentation builds without warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

deny: ## Licences, sources and bans of dependencies
	scripts/deny

readme: tools ## Runs the commands of README.md, docs/live.md, docs/lots.md, docs/cache.md and docs/lookup.md as written, in a copy like a fresh clone
	scripts/readme README.md docs/live.md docs/lots.md docs/cache.md docs/lookup.md

fuzz-smoke: ## Runs every fuzz target for $(FUZZ_SECONDS) s, from its seed corpus
	scripts/fuzz $(FUZZ_SECONDS)

pictures: ## Draws the pictures of README.md from a run of the demo under Prometheus
	$(CARGO) build --release -p vickrey
	scripts/pictures

bench: ## Measures every figure beside floor and peers, and writes bench/runs/
	python3 bench/run.py

compare: ## Shows every user-visible difference between the binaries BEFORE=path and AFTER=path: compat/README.md
	scripts/compare "$(BEFORE)" "$(AFTER)"

clean: ## Removes all build outputs
	$(CARGO) clean
	rm -rf fuzz/target
