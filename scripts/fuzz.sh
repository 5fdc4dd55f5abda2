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
# All at once, so that both processors build; then two at a time.
cargo fuzz build --sanitizer none
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
fuzz() { # NAME
    mkdir -p "fuzz/corpus/$1"
    dict=fuzz/cron.dict
    case $1 in requests | preview) dict=fuzz/requests.dict ;; esac
    cargo fuzz run --sanitizer none "$1" -- \
        -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -max_len=2048 -dict="$dict" -print_final_stats=1 \
        >"$logs/$1" 2>&1
}
failed=
set -- cron_parse next_any requests texts stored cursors preview letters
while [ $# -gt 0 ]; do
    fuzz "$1" &
    first=$!
    fuzz "$2" || failed="$failed $2"
    wait "$first" || failed="$failed $1"
    # What a finding says is wanted whole, of the others only how much was tried.
    for name in "$1" "$2"; do
        case "$failed " in
        *" $name "*) cat "$logs/$name" ;;
        *) echo "fuzz: $name" && grep '^Done [0-9]* runs in ' "$logs/$name" ;;
        esac
    done
    shift 2
done
[ -z "$failed" ] || { echo "fuzz: found something in$failed" >&2; exit 1; }
