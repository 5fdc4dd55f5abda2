#!/usr/bin/env bash
# Builds everything that tests run: the tests themselves, target/debug/duly and target/debug/chaos. One command for all who
# need one of them: with a selection of packages of its own each would get its own choice of the libraries'
# features, and cargo would build most of them again for each.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --quiet --workspace --no-run
