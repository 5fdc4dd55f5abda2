#!/bin/sh
# Counts the instructions of one call per case with valgrind and compares them with the recorded
# ones in bench/micro/instructions.txt: more than 20 % above fails. Machines differ in nanoseconds,
# hardly in instructions.
#   scripts/check-instructions.sh            compare
#   scripts/check-instructions.sh --record   write the file anew
set -eu
cd "$(dirname "$0")/.."
file=bench/micro/instructions.txt
command -v valgrind >/dev/null || { echo "valgrind is missing: apt-get install valgrind" >&2; exit 1; }
cargo build --quiet --release -p bench-micro
bin=${CARGO_TARGET_DIR:-target}/release/bench-micro

count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bin" run "$1" "$2" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

new=$(mktemp)
trap 'rm -f "$new"' EXIT
for name in $("$bin" list); do
    calls=64
    one=$(count "$name" 1)
    many=$(count "$name" $((calls + 1)))
    echo "$name $(((many - one) / calls))" >>"$new"
done
# One lifecycle of the core (submit, claim, settle), from rounds of 256.
core=${CARGO_TARGET_DIR:-target}/release/core
rounds() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$core" run "$1" 2>&1 |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
echo "core_lifecycle $((($(rounds 40) - $(rounds 8)) / (32 * 256)))" >>"$new"
# The whole server, as the tests build it (a fifth to a quarter more instructions than in a release, and nothing to build here).
scripts/build-tests.sh
scripts/count-server.sh "${CARGO_TARGET_DIR:-target}/debug/duly" >>"$new"
if [ "${1:-}" = --record ]; then
    { echo "# case, instructions per call; written by scripts/check-instructions.sh --record"; cat "$new"; } >"$file"
    cat "$file"
    exit
fi
bad=0
while read -r name now; do
    then=$(sed -n "s/^$name //p" "$file")
    if [ -z "$then" ]; then
        echo "$name: $now, not recorded"
        bad=1
    elif [ $((now * 100)) -gt $((then * 120 + 2000)) ]; then
        echo "$name: $now instructions, recorded $then: more than 20 % above"
        bad=1
    else
        echo "$name: $now instructions, recorded $then"
    fi
done <"$new"
exit $bad
