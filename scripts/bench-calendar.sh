#!/bin/sh
# Prints nanoseconds per call of the calendar on this machine.
set -eu
cd "$(dirname "$0")/.."
cargo run --quiet --release -p bench-micro -- time
