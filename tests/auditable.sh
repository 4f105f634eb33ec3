#!/bin/bash
# Runs cargo auditable. Installs it first if it is missing.
#
#   tests/auditable.sh build --release -p landfall-agent
set -euo pipefail
cargo auditable --version > /dev/null 2>&1 || cargo install cargo-auditable --locked --debug
exec cargo auditable "$@"
