#!/usr/bin/env bash
# One queue, 1,000 tenants: one has a million runs waiting, the jobs of the others arrive at four fifths of what the
# machine can do. How long do they wait? Then the same with a kill -9 of the server in the middle.
#   bench/tenants.sh [WAITING] [SECONDS]      1,000,000 and 30
# Needs `cargo build --release -p duly` (DULY=... names another binary).
set -euo pipefail
cd "$(dirname "$0")/.."
duly=${DULY:-target/release/duly} waiting=${1:-1000000} seconds=${2:-30}
port=7183 url=http://127.0.0.1:7183
dir=$(mktemp -d "${CARGO_TARGET_DIR:-target}/tenants.XXXXXX")
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT INT TERM
start() {
    "$duly" serve --data "$dir/data" --listen 127.0.0.1:$port >>"$dir/log" 2>&1 &
    server=$!
    for _ in $(seq 500); do curl -fs "$url/readyz" >/dev/null 2>&1 && return; sleep 0.02; done
    tail "$dir/log"; exit 1
}
row() {
    python3 -c 'import json, sys
row = json.load(sys.stdin)[0]
late = row["millis"]
print("%d in %.1f s: waited p50 %.0f, p99 %.0f, most %.0f ms; %s"
      % (row["jobs"], row["seconds"], late["p50"], late["p99"], late["max"], row["tally"]))'
}
start
others() { # JOBS RATE
    "$duly" bench tenants --jobs "$1" --rate "$2" --queue tenants --connections 4 --time-limit 120 --url $url --json
}
# What the machine can do: the same jobs and workers, as fast as they can, and nobody else in the queue.
capacity=$(others 100000 1000000 | python3 -c 'import json, sys; print(int(json.load(sys.stdin)[0]["per_second"]))')
rate=$((capacity * 8 / 10))
echo "the others' jobs alone, as fast as they can: $capacity/s; from here on they arrive at $rate/s"
fill() {
    "$duly" bench fill --jobs "$waiting" --queue tenants --group heavy --connections 4 --time-limit 600 --url $url --json >/dev/null
}
left() { curl -fs "$url/v1/queues/tenants" | python3 -c 'import json, sys; print(json.load(sys.stdin)["ready"])'; }
echo "waiting of one tenant, each time: $waiting (what is left of them is counted up to 10,000)"
fill
echo -n "999 others, "
others $((rate * seconds)) $rate | row
echo "left of the one tenant: $(left)"
fill
echo -n "with kill -9 after $((seconds / 2)) s, "
others $((rate * seconds)) $rate >"$dir/row" &
load=$!
sleep $((seconds / 2))
kill -9 "$server"; wait "$server" 2>/dev/null || true
start
wait $load; row <"$dir/row"
echo "left of the one tenant: $(left); load average $(cut -d" " -f1 /proc/loadavg)"
