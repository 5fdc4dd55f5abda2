#!/bin/sh
# Fuzzes every target for so many seconds each: scripts/fuzz.sh 60
#
# cargo-fuzz wants a nightly compiler for its sanitizer flags; RUSTC_BOOTSTRAP=1 lets the pinned
# stable one accept them. No address sanitizer: the code has no unsafe to watch.
set -eu
seconds=${1:?usage: scripts/fuzz.sh SECONDS}
cd "$(dirname "$0")/.."
version=0.13.2
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/tools
if ! "$tools/bin/cargo-fuzz" --version 2>/dev/null | grep -q "$version"; then
    cargo install cargo-fuzz --version "$version" --locked --root "$tools"
fi
export PATH="$tools/bin:$PATH" RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR="$target/fuzz"
for name in cron_parse next_any requests texts stored cursors preview letters; do
    mkdir -p "fuzz/corpus/$name"
    dict=fuzz/cron.dict
    case $name in requests | preview) dict=fuzz/requests.dict ;; esac
    cargo fuzz run --sanitizer none "$name" -- \
        -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=2048 -dict="$dict" -print_final_stats=1
done
