# `make demo` shows what ccagent does, `make test` checks that it does it. `make help` lists the rest.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
PREFIX ?= $(HOME)/.local
DESTDIR ?=
# Seconds that each fuzz target runs.
FUZZ_SECONDS ?= 60

target := $(abspath $(or $(CARGO_TARGET_DIR),target))
release := $(target)/release
share = $(DESTDIR)$(PREFIX)/share
programs := ccagentd ccagentctl ccagent-shim
packages := -p ccagentd -p ccagent-client -p ccagent-shim
scripts := .ci/run $(wildcard scripts/*)
# Tests that can't run here add a line to this file, which is shown at the end.
skips := $(target)/skipped-tests

export CCAGENT_SKIP_LOG := $(skips)
# A snapshot that differs is a failure; nothing is written beside it.
export INSTA_UPDATE := no

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# What people use

.PHONY: build
build: ## Build the three programs for use (target/release)
	$(CARGO) build --release --locked $(packages) --bins

.PHONY: demo
demo: build ## Build, then show real programs as agents in a repository made for it
	$(release)/ccagentctl demo

.PHONY: install
install: man completions ## Copy programs, man pages and completions to PREFIX (~/.local)
	install -d -m 0755 $(DESTDIR)$(PREFIX)/bin $(share)/man/man1 $(share)/bash-completion/completions \
	  $(share)/zsh/site-functions $(share)/fish/vendor_completions.d
	install -m 0755 $(programs:%=$(release)/%) $(DESTDIR)$(PREFIX)/bin
	install -m 0644 $(target)/man/*.1 $(share)/man/man1
	install -m 0644 $(target)/completions/ccagentctl.bash $(share)/bash-completion/completions/ccagentctl
	install -m 0644 $(target)/completions/_ccagentctl $(share)/zsh/site-functions
	install -m 0644 $(target)/completions/ccagentctl.fish $(share)/fish/vendor_completions.d

.PHONY: man
man: build ## Write the man pages to target/man
	mkdir -p $(target)/man
	$(release)/ccagentctl man $(target)/man
	@echo "the man pages are in $(target)/man"

.PHONY: completions
completions: build ## Write completions for bash, zsh and fish to target/completions
	mkdir -p $(target)/completions
	$(release)/ccagentctl completions bash > $(target)/completions/ccagentctl.bash
	$(release)/ccagentctl completions zsh > $(target)/completions/_ccagentctl
	$(release)/ccagentctl completions fish > $(target)/completions/ccagentctl.fish

# What checks it

.PHONY: test
test: format lint fuzz-check check rustdoc golden-diff deny shellcheck units skipped ## All checks and all tests

.PHONY: format
format: ## Check the formatting
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

.PHONY: lint
lint: ## Run clippy; a warning is an error
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# fuzz/ is a workspace of its own. Nothing is linked here, so libFuzzer, which needs a C++ compiler, is not built.
.PHONY: fuzz-check
fuzz-check: ## Run clippy on the fuzz targets; a warning is an error
	CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a $(CARGO) clippy --locked --manifest-path fuzz/Cargo.toml \
	  --target-dir $(target) -- -D warnings

.PHONY: check
check: ## Run all tests, by nextest where it is installed
	mkdir -p $(target) && rm -f $(skips)
	$(CARGO) build --workspace --bins --locked
	$(CARGO) test --workspace --doc --locked
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
	  $(CARGO) nextest run --workspace --locked --no-fail-fast; \
	else \
	  echo "cargo-nextest is not installed: cargo test runs the tests instead"; \
	  $(CARGO) test --workspace --locked --no-fail-fast; \
	fi

.PHONY: rustdoc
rustdoc: ## Build the documentation; a warning is an error
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: golden-diff
golden-diff: ## Compare proto/openrpc.json with the types
	$(CARGO) run --quiet --locked -p ccagent-proto --example openrpc | diff -u proto/openrpc.json - \
	  || { echo "proto/openrpc.json is not what the types give: make golden" >&2; exit 1; }

.PHONY: golden
golden: ## Write proto/openrpc.json anew
	mkdir -p $(target)
	$(CARGO) run --quiet --locked -p ccagent-proto --example openrpc > $(target)/openrpc.json
	cp $(target)/openrpc.json proto/openrpc.json

.PHONY: deny
deny: ## Check dependencies and licences, where cargo-deny is installed
	@if $(CARGO) deny --version >/dev/null 2>&1; then \
	  $(CARGO) deny --all-features --locked check --hide-inclusion-graph bans licenses sources; \
	else \
	  echo "skipped: cargo-deny is not installed, dependencies and licences were not checked"; \
	fi

.PHONY: shellcheck
shellcheck: ## Check the scripts, where shellcheck is installed
	@if command -v shellcheck >/dev/null; then \
	  shellcheck $(scripts); \
	elif [[ "$${CCAGENT_REQUIRE_ALL:-}" == 1 ]]; then \
	  echo "shellcheck is not installed" >&2; exit 1; \
	else \
	  echo "skipped: shellcheck is not installed, the scripts were not checked"; \
	fi

.PHONY: units
units: ## Check the systemd units, where systemd-analyze is installed
	scripts/verify-units

.PHONY: skipped
skipped: ## Say which tests the last run skipped, and why
	@if [[ -s $(skips) ]]; then echo "skipped tests:"; sort -u $(skips) | sed 's/^/  /'; else echo "no test was skipped"; fi

# What takes longer

.PHONY: bench
bench: build ## Measure the real daemon beside its floors
	$(CARGO) bench --locked -p ccagent-tests

.PHONY: torture
torture: build ## Run the whole crash suite: kill -9 under load, again and again
	CCAGENT_TORTURE=full $(CARGO) test --release --locked -p ccagent-tests --test crash -- --nocapture

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZ_SECONDS (60)
	scripts/fuzz $(FUZZ_SECONDS)

# `make test` reports in the order of its list, also under -j: cargo holds a lock anyway.
.NOTPARALLEL:
