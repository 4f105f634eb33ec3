# `make` lists the targets. Each target is a short list of commands.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

target_dir := $(or $(CARGO_TARGET_DIR),target)/x86_64-unknown-linux-gnu
agent := $(target_dir)/release/landfall-agent
builder := $(target_dir)/debug/landfall-image
release_builder := $(target_dir)/release/landfall-image

# A test that cannot run on this machine fails. If it passed instead, cargo would hide the
# reason that the test prints. LANDFALL_TESTS_REQUIRED=0 skips such tests.
export LANDFALL_TESTS_REQUIRED ?= 1

# The packages and features for tests, the same in all commands where possible: with other
# features, cargo would compile the same crates again.
tests := --workspace --features landfall-image/controller
# The packages and features for building landfall-image. With "build_builder=$(tests)"
# this build takes longer, but then cargo compiles no crate a second time for the tests.
build_builder ?= -p landfall-image

aarch64_options := --arch aarch64 --agent out/aarch64/landfall-agent --kernel-deb out/aarch64/packages/linux-image-*.deb \
  --loader-dir out/aarch64/system

# Builds a program with the list of its crates in an ELF section, for `cargo audit bin`.
auditable_build := tests/auditable.sh build --release

# How many tests that boot guests run at the same time (reason: tests/src/guest_slots.rs).
guests := $(shell echo $$(($$(nproc) * 3 / 2)))

ARCH ?= x86_64
$(if $(filter-out x86_64 aarch64,$(ARCH)),$(error ARCH: expected x86_64 or aarch64, found $(ARCH)))
BOOT ?= iso
FIRMWARE ?= uefi
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=
TEST ?=
SCENARIO ?=
ORACLE_SEED ?= 1
ORACLE_LINES ?= 10000
RUNS ?= 5
AGENTS ?= 50
RELEASE_NAMES ?= centos9-master debian-master
# Debian's firmware packages are in non-free-firmware. Few build machines have that
# component in their APT sources, and the tests use no card that needs firmware. A release
# for servers: "--module-set server --firmware debian".
RELEASE_OPTIONS ?= --module-set server --allow-missing-firmware

.PHONY: help setup setup-build setup-demo setup-lab demo-image build aarch64 live-agent live-system container-host image peer peers dracut installers ironic kube-apiserver rescue release demo lab bench endurance test test-all test-unit test-slow-clients test-coreos-media test-e2e test-e2e-all test-hardware test-ironic-gates test-ironic test-conductors test-controller test-fresh test-release fuzz fuzz-minimise nm-oracle nmstate-oracle docs book lint clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  make demo BOOT=pxe|iso FIRMWARE=bios|uefi   (default: iso, uefi; lab takes them, too)'
	@echo '  make demo ARCH=aarch64                      (default: x86_64; UEFI only)'
	@echo '  make test-e2e TEST=NAME                     (default: all; tests/e2e)'
	@echo '  make test-hardware TEST=NAME ARCH=aarch64   (default: all, x86_64; tests/hardware/matrix.txt)'
	@echo '  make test-ironic SCENARIO=NAME              (default: all; tests/ironic/tests/scenarios.rs)'
	@echo '  make bench RUNS=N                           (default: 5)'
	@echo '  make endurance AGENTS=N                     (default: 50; at most 240)'
	@echo '  make release RELEASE_NAMES="FLAVOR-BRANCH ..." RELEASE_OPTIONS="OPTION ..."'
	@echo '  make nm-oracle ORACLE_SEED=N ORACLE_LINES=N (default: 1, 10000)'
	@echo '  make fuzz FUZZ_SECONDS=N                    (default: 60, for each target)'
	@echo '  make fuzz-minimise FUZZ_TARGETS="NAME ..."  (default: all)'

# A target installs only the packages that it needs itself, because packages that only the
# tests need install system services.
setup: ## Install missing Debian packages, download kernels and Ignition (tests/setup.sh)
	tests/setup.sh

setup-build:
	tests/setup.sh --for build

setup-demo:
	tests/setup.sh --for demo

setup-lab:
	tests/setup.sh --for lab

build: setup-build ## The agent (release, static), the builder, a ramdisk with its kernel
	$(auditable_build) -p landfall-agent
	cargo build $(build_builder) --bin landfall-image
	mkdir -p out
	$(builder) pxe --agent $(agent) --kernel-deb out/packages/linux-image-*.deb -o out/pxe --force
	$(builder) pxe --agent $(agent) --kernel-deb out/packages/generic/linux-image-*.deb -o out/pxe-generic --force

# Compiles with Debian's cross compiler in a separate root file system (docs/aarch64.md).
aarch64: setup ## Agent, ISO, PXE tree and test image for aarch64 hosts: out/aarch64
	tests/aarch64/build.sh -o out/aarch64
	tests/coreos-image/build.sh --kernel-deb out/aarch64/packages/linux-image-*.deb \
	  --ignition-deb out/aarch64/packages/ignition_*.deb --aarch64 out/aarch64/system -o out/aarch64/coreos-image
	cargo build $(build_builder) --bin landfall-image
	$(builder) iso $(aarch64_options) -o out/aarch64/landfall.iso --force
	$(builder) pxe $(aarch64_options) -o out/aarch64/pxe --force

# Where a target builds both agents, this one comes first: both binaries have the same
# path in cargo's target folder, and the later build overwrites the earlier one.
live-agent: ## The agent for a live system, with D-Bus: out/live-system/landfall-agent
	$(auditable_build) -p landfall-agent --features live-system
	mkdir -p out/live-system
	cp $(agent) out/live-system/landfall-agent

live-system: setup ## Debian's systemd and NetworkManager in a ramdisk, for the tests
	tests/live-system/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --ignition-deb out/packages/ignition_*.deb -o out/live-system

container-host: setup ## The same with podman, for OpenShift's agent container: out/container-host
	tests/live-system/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --ignition-deb out/packages/ignition_*.deb --podman -o out/container-host

demo-image: setup-demo ## The CoreOS-shaped image that the demo and the lab install: out/coreos-image
	tests/coreos-image/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --ignition-deb out/packages/ignition_*.deb -o out/coreos-image

image: setup demo-image ## The images that the tests install: also with NetworkManager, and with iSCSI
	tests/coreos-image/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --ignition-deb out/packages/ignition_*.deb \
	  --network-manager-debs out/packages/network-manager -o out/coreos-image-network-manager
	tests/coreos-image/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --ignition-deb out/packages/ignition_*.deb \
	  --network-manager-debs out/packages/network-manager \
	  --iscsi-debs out/packages/iscsi -o out/coreos-image-iscsi

peer: setup ## The ramdisk of the switch that tests of VLANs and bonds need
	tests/peer/build.sh --kernel-deb out/packages/linux-image-*.deb -o out/peer

peers: ## coreos-installer from its published crate, built once: out/peers
	tests/peers.sh -o out/peers

dracut: setup ## dracut from Debian's packages, unpacked and not installed: out/peers
	tests/bench/dracut.sh -o out/peers

test-coreos-media: setup peers ## coreos-installer's commands on our ISO, PXE tree and ramdisk
	cargo test -p landfall-image --test command_line -- --ignored coreos_installer

installers: setup peers ## The ramdisk that compares coreos-installer with the agent
	tests/installers/build.sh --kernel-deb out/packages/linux-image-*.deb \
	  --coreos-installer out/peers/coreos-installer/bin/coreos-installer -o out/installers

ironic: setup-lab ## The real Ironic and a Redfish emulator, from PyPI
	tests/ironic/environment.sh -o out/ironic

# Low priority: Go compiles on all processors for some minutes.
kube-apiserver: ## A real kube-apiserver and etcd from Debian's source, built once, and kubectl: out/kubernetes
	nice -n 19 tests/kubernetes/build.sh -o out/kubernetes
	tests/kubernetes/kubectl.sh -o out/kubernetes

# The ramdisk of a machine in rescue mode, into which its user logs in.
rescue: setup build ## The ramdisk with the rescue layer: out/rescue
	mkdir -p out/rescue
	$(builder) initramfs --agent $(agent) --kernel-deb out/packages/linux-image-*.deb \
	  --rescue-layer -o out/rescue/initrd.img --force

# The agent for live systems is built first: both agents have the same path in cargo's
# target folder. out/release.command keeps the command for the test that runs it again.
release: setup live-agent build ## All files that sites and platforms fetch: out/release
	$(auditable_build) -p landfall-image --features controller
	tests/release/packages.sh -o out/release-packages
	rm -rf out/release
	printf '%s\n' $(release_builder) release --agent $(agent) \
	  --live-agent out/live-system/landfall-agent \
	  --kernel-deb out/packages/generic/linux-image-*.deb $(RELEASE_OPTIONS) \
	  $(addprefix --name ,$(RELEASE_NAMES)) --builder-packages out/release-packages \
	  > out/release.command
	xargs -d '\n' -a out/release.command sh -c 'exec "$$@" -o out/release' sh

demo: $(if $(filter aarch64,$(ARCH)),aarch64,build demo-image) ## Install a virtual host from scratch and watch it
	@echo 'compiling the demo, without output: about two minutes the first time'
	LANDFALL_ARCH=$(ARCH) cargo run -q -p landfall-tests --bin demo -- --boot $(BOOT) --firmware $(FIRMWARE)

lab: build demo-image ironic ## Ironic, a BMC and a virtual host, to play with
	@echo 'compiling the lab, without output: about two minutes the first time'
	cargo run -q -p landfall-ironic-tests --bin lab -- --boot $(BOOT) --firmware $(FIRMWARE)

# The order matters: the benchmark `stages` uses the image that `--prepare` makes.
bench: setup build image peers dracut kube-apiserver ## Measure run times and print tables (docs/benchmarks.md)
	cargo run -q -p landfall-bench -- --prepare
	cargo bench -q -p landfall-disk --bench stages
	cargo bench -q -p landfall-download --bench digests
	$(auditable_build) -q -p landfall-image
	cargo run -q -p landfall-bench -- --runs $(RUNS)
	cargo run -q -p landfall-kubernetes-tests --bin controller-bench

# All agents run at once, at low priority. 50 agents need 1 GB of disk and 1 GB of memory.
endurance: setup ironic ## Many agents under the real Ironic, with all its troubles, and a compressed day
	$(auditable_build) -p landfall-agent
	nice -n 10 cargo run -q -p landfall-ironic-tests --bin endurance -- --agents $(AGENTS) --day

test: test-unit test-e2e test-ironic-gates ## The tests that every change must pass

test-all: test-unit test-slow-clients fuzz nm-oracle test-coreos-media test-controller test-e2e-all test-hardware test-ironic test-conductors test-release test-fresh ## Every test

# A separate cargo command for the tests of D-Bus: with $(tests), cargo would enable the
# feature live-system for the agent as well, and the tests of agent/tests would run
# another program than the agent in the ramdisk.
test-unit: setup ## Unit and table tests of all crates
	tests/unit-tests.py $(tests)
	tests/unit-tests.py -p landfall-live-system --features live-system

test-slow-clients: setup ## A thousand slow clients of the image service
	cargo test $(tests) --test memory -- --ignored
	cargo test $(tests) --test command_line -- --ignored ten_thousand

test-e2e: setup live-agent build live-system image peer ## Virtual hosts through firmware, kernel, agent and Ignition
	RUST_TEST_THREADS=$(guests) cargo test $(tests) --test e2e -- $(TEST)

test-e2e-all: setup live-agent build live-system container-host release image peer installers ## Also the long tests, and those that resemble another one
	RUST_TEST_THREADS=$(guests) cargo test $(tests) --test e2e -- --include-ignored $(TEST)

# These tests have their own harness (libtest-mimic), which does not read
# RUST_TEST_THREADS.
test-hardware: setup $(if $(filter aarch64,$(ARCH)),aarch64,build image) ## The machines that QEMU can make: firmware, ways to boot, kernels, controllers, NICs
	LANDFALL_ARCH=$(ARCH) cargo test $(tests) --test hardware -- --test-threads $(guests) $(TEST)

test-ironic-gates: setup build image ironic ## Two scenarios under the real Ironic
	cargo test $(tests) --test ironic

test-ironic: setup build rescue image ironic ## All scenarios under the real Ironic; LANDFALL_LAB=keep leaves the lab running
	cargo test $(tests) --test ironic -- --include-ignored --skip registry --skip controller $(SCENARIO)

# The versions of Ironic that metal3's ironic-standalone-operator supports (its
# ironic_types.go), in addition to the pinned version.
test-conductors: setup build image ironic ## One scenario under each older Ironic that metal3's operator supports
	for version in 35.1.0 37.0.0 38.0.0; do \
	  tests/ironic/environment.sh --version $$version -o out/ironic-$$version && \
	  LANDFALL_IRONIC=$$version \
	    cargo test -p landfall-ironic-tests --test ironic -- --exact scenarios::virtual_media_uefi || exit 1; \
	done

# Two API servers at a time need 1 GB of memory. LANDFALL_OUTAGE_SECONDS (default: 60) is
# how long one of the tests stops the API server.
test-controller: setup kube-apiserver build image ironic ## The controller with a real kube-apiserver and etcd, then with Ironic and a host
	cargo build $(tests) --bin landfall-image --bin preprovisioned-host
	RUST_TEST_THREADS=2 cargo test $(tests) --test controller -- $(TEST)
	cargo test $(tests) --test ironic -- --ignored controller

test-fresh: ## The README's commands on a new Debian 12 and a new Debian 13, with nothing cached
	tests/fresh-machine.sh

test-release: setup release image ironic ## The release in podman, skopeo, a registry, Ironic and the validator of its SBOM
	tests/release/judges.sh -o out/judges
	cargo test $(tests) --test release
	cargo test $(tests) --test ironic -- --ignored registry

# RUSTC_BOOTSTRAP: the sanitizers are unstable features. With this variable the pinned
# compiler accepts them, so no second toolchain is needed. cargo-fuzz passes its flags in
# RUSTFLAGS, which replaces the flags of .cargo/config.toml. That removes +crt-static,
# with which AddressSanitizer cannot be linked. An input that takes longer than 10 s, or
# more memory than libFuzzer's limit of 2 GB, is a fault too.
fuzz: ## Fuzz every parser of external input with libFuzzer
	cargo fuzz --version > /dev/null 2>&1 || cargo install cargo-fuzz --locked --debug
	RUSTC_BOOTSTRAP=1 cargo fuzz build --fuzz-dir tests/fuzz
	for target in $$(cargo fuzz list --fuzz-dir tests/fuzz); do \
	  mkdir -p tests/fuzz/corpus/$$target; \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir tests/fuzz $$target \
	    tests/fuzz/corpus/$$target tests/fuzz/seeds/$$target -- \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 -print_final_stats=1; \
	done

fuzz-minimise: ## Keep the smallest inputs that `make fuzz` has found
	cargo fuzz --version > /dev/null 2>&1 || cargo install cargo-fuzz --locked --debug
	tests/fuzz/minimise.sh $(FUZZ_TARGETS)

nm-oracle: setup ## Compare random kernel command lines with NetworkManager's own generator
	rm -rf out/nm-oracle
	mkdir -p out/nm-oracle/sys
	dpkg-deb -x out/packages/network-manager/network-manager_*.deb out/nm-oracle/package
	cargo run -q -p landfall-nm-oracle -- \
	  --generator "$$(find out/nm-oracle/package -name nm-initrd-generator -type f)" \
	  --version "$$(dpkg-deb -f out/packages/network-manager/network-manager_*.deb Version)" \
	  --sysfs out/nm-oracle/sys --seed $(ORACLE_SEED) --lines $(ORACLE_LINES)

nmstate-oracle: ## Regenerate the output of nmstate's own generator for the NMState cases
	cd tests/nmstate-oracle && cargo run -q -- $$(ls -d $(CURDIR)/agent/network-plan/test_data/nmstate/*/)

docs: ## Rewrite the generated pages of docs/: arguments, options, messages, hardware
	LANDFALL_UPDATE_DOCS=1 cargo test -q -p landfall-boot-params the_page_of_kernel_arguments
	LANDFALL_UPDATE_DOCS=1 cargo test -q $(tests) --test documentation --test command_line the_page_of_options
	LANDFALL_UPDATE_DOCS=1 cargo test -q -p landfall-documentation --test messages
	LANDFALL_UPDATE_DOCS=1 cargo test -q -p landfall-tests --lib the_page_of_hardware

# The pages as a website. mdBook does not report broken links, but `book check` does.
book: ## The documentation as a website: out/book/index.html
	mdbook --version > /dev/null 2>&1 || cargo install mdbook --locked --debug --no-default-features
	rm -rf out/book-source out/book
	cargo run -q -p landfall-documentation --bin book -- lay-out out/book-source
	mdbook build out/book-source --dest-dir $(CURDIR)/out/book
	cargo run -q -p landfall-documentation --bin book -- check out/book

lint: ## Formatting, clippy, licences of the crates
	cargo fmt --all --check
	cargo metadata --locked --manifest-path tests/fuzz/Cargo.toml --format-version 1 > /dev/null
	cargo clippy --workspace --all-targets --features landfall-agent/live-system,landfall-image/controller -- -D warnings
	cargo clippy --workspace --features landfall-agent/live-system,landfall-image/controller \
	  --test e2e --test hardware --test ironic --test controller --test release -- -D warnings
	cargo clippy $(tests) -- -D warnings
	cargo deny --version > /dev/null 2>&1 || cargo install cargo-deny --locked --debug
	cargo deny check bans licenses sources

clean: ## Remove out/; what cargo has built stays (cargo clean)
	rm -rf out
