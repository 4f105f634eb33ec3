# make            what can be made
# Everything here is a thin call of cargo or of a script; nothing is hidden.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

target_dir := $(or $(CARGO_TARGET_DIR),target)/x86_64-unknown-linux-gnu
agent := $(target_dir)/release/landfall-agent
builder := $(target_dir)/debug/landfall-image

BOOT ?= iso
FIRMWARE ?= uefi

.PHONY: help setup build image demo test test-unit test-e2e lint clean

help: ## Show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  make demo BOOT=pxe|iso FIRMWARE=bios|uefi   (default: iso, uefi)'

setup: ## Install missing Debian packages, download the kernel and Ignition
	tests/setup.sh

build: setup ## The agent (release, static), the builder, a ramdisk with its kernel
	cargo build --release -p landfall-agent
	cargo build -p landfall-image
	mkdir -p out
	$(builder) pxe --agent $(agent) --kernel-deb out/packages/linux-image-*.deb -o out/pxe --force

image: setup ## The CoreOS-shaped image that the tests install
	tests/coreos-image/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --ignition-deb out/packages/ignition_*.deb -o out/coreos-image

demo: build image ## Install a virtual host from scratch and watch it
	cargo run -q -p landfall-tests --bin demo -- --boot $(BOOT) --firmware $(FIRMWARE)

test: test-unit test-e2e ## Every test

test-unit: setup ## Unit and table tests of all crates
	cargo test --workspace --exclude landfall-tests
	cargo test -p landfall-tests --lib --bins

test-e2e: build image ## Virtual hosts through firmware, kernel, agent and Ignition
	cargo test -p landfall-tests --test e2e

lint: ## Formatting, clippy, licences and advisories (if cargo-deny is there)
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	if cargo deny --version > /dev/null 2>&1; then cargo deny check bans licenses sources; fi

clean: ## Remove what the tests made; cargo's results stay (cargo clean)
	rm -rf out
