# Everything a developer runs. Each target installs what it needs; README.md lists what must be
# there before: rustup with the pinned toolchain, and a C compiler for it to link with.

CARGO ?= cargo
# One second of fuzzing a target in the tests; raise it to look for something.
FUZZ_SECONDS ?= 5

.PHONY: help demo test bench format lint unit fuzz fuzz-smoke docs deny clean

help: ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

demo: ## An exchange, 50 simulated DSPs and traffic: watch auctions clear
	$(CARGO) run --release --quiet -p vickrey -- demo

test: format lint unit docs deny fuzz-smoke ## Everything that must hold before a change lands

format: ## Formatting
	$(CARGO) fmt --all --check

lint: ## Lints as errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit: ## Unit, property, integration and simulation tests, with fixed seeds
	PROPTEST_RNG_SEED=1 $(CARGO) test --workspace --locked

docs: ## Documentation builds without warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

deny: ## Licences, sources and bans of dependencies
	scripts/deny

fuzz-smoke: ## Every fuzz target for $(FUZZ_SECONDS) s, from its seed corpus
	scripts/fuzz $(FUZZ_SECONDS)

bench: ## Reproduces every figure, floor and peers beside; writes bench/runs/
	python3 bench/run.py

clean: ## Removes what was built
	$(CARGO) clean
	rm -rf fuzz/target
