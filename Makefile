# Everything a developer runs. Each target installs what it needs; README.md lists what must be
# there before: rustup with the pinned toolchain, and a C compiler for it to link with.

CARGO ?= cargo
# Seconds of fuzzing each target in the tests; raise it to look for something.
FUZZ_SECONDS ?= 5
# Tests at once: most of them wait for a socket, a disk or another process.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# What `make test` runs, in this order.
STEPS = format lint unit mutants-sample bench-tests docs deny readme fuzz-smoke

.PHONY: help demo test check bench bench-tests format lint unit unit-changed mutants mutants-sample fuzz-smoke docs deny readme pictures tools compare clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

demo: ## An exchange, 50 simulated DSPs and traffic: watch auctions clear
	$(CARGO) run --release -p vickrey -- demo

test: ## Everything that must hold before a change lands, with the time of each step
	scripts/steps $(STEPS)

check: ## After a small change: formatting, lints, and unit tests of the packages that differ from main
	scripts/steps format lint unit-changed

format: ## Formatting
	$(CARGO) fmt --all --check

lint: ## Lints as errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

tools: ## What tests use beside the toolchain
	scripts/tools

unit: tools ## Unit, property, integration and simulation tests, with fixed seeds
	PROPTEST_RNG_SEED=1 $(CARGO) test --workspace --locked

unit-changed: ## Unit tests of the packages that differ from main
	scripts/unit-changed

mutants: ## Plants every known mistake in a copy of the code, and expects a test to fail
	scripts/mutants

mutants-sample: ## A dozen of them, chosen by the hash of the commit
	scripts/mutants --sample 12

bench-tests: ## Tests of the driver, of the pictures, of the comparison and of the Go peer, where Python and Go are installed
	if command -v python3 >/dev/null; then python3 bench/test_run.py && python3 bench/test_log.py && python3 bench/test_budgets.py && python3 bench/test_pacing.py && python3 scripts/test_pictures.py && python3 compat/test_compare.py; fi
	if command -v go >/dev/null; then cd bench/peers/go-exchange && go vet ./... && go test ./...; fi

docs: ## Documentation builds without warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

deny: ## Licences, sources and bans of dependencies
	scripts/deny

readme: tools ## The commands of README.md, as they are, in what a fresh clone would be
	scripts/readme

fuzz-smoke: ## Every fuzz target for $(FUZZ_SECONDS) s, from its seed corpus
	scripts/fuzz $(FUZZ_SECONDS)

pictures: ## The pictures of README.md, from a run of the demo under Prometheus
	$(CARGO) build --release -p vickrey
	scripts/pictures

bench: ## Every figure, with floor and peers beside it, into bench/runs/
	python3 bench/run.py

compare: ## What users see of the binaries BEFORE=path and AFTER=path that differs: compat/README.md
	scripts/compare "$(BEFORE)" "$(AFTER)"

clean: ## Removes what was built
	$(CARGO) clean
	rm -rf fuzz/target
