#!/usr/bin/env bash
# No-op jobs through a queue without limits and through one with all of them (too high to bind), in turns.
#   bench/limits.sh [JOBS] [TURNS]     60,000 and 5
# Needs `cargo build --release -p duly` (DULY=... names another binary).
set -euo pipefail
cd "$(dirname "$0")/.."
duly=${DULY:-target/release/duly} jobs=${1:-60000} turns=${2:-5}
port=7184 url=http://127.0.0.1:7184
dir=$(mktemp -d "${CARGO_TARGET_DIR:-target}/limits.XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; [ -z "$server" ] || wait "$server" || true; rm -rf "$dir"' EXIT INT TERM
"$duly" serve --data "$dir/data" --listen 127.0.0.1:$port >"$dir/log" 2>&1 &
server=$!
for _ in $(seq 500); do curl -fs "$url/readyz" >/dev/null 2>&1 && break; sleep 0.02; done
for turn in $(seq "$turns"); do
    for kind in open limited; do
        if [ $kind = limited ]; then
            curl -fs -X PUT "$url/v1/queues/$kind-$turn" -H 'Content-Type: application/json' -d '{"max_running": 100000,
                "rate": "100000/s", "burst": 100000, "groups": {"max_running": 100000, "rate": "100000/s", "burst": 100000}}' >/dev/null
        fi
        "$duly" bench noop --jobs "$jobs" --queue $kind-$turn --connections 8 --url $url --json >"$dir/$kind-$turn"
    done
done
python3 - "$dir" "$turns" <<'PY'
import json, os, statistics, sys
folder, turns = sys.argv[1], int(sys.argv[2])
rate = {kind: [json.load(open(f"{folder}/{kind}-{turn + 1}"))[0]["per_second"] for turn in range(turns)] for kind in ("open", "limited")}
for kind, all in rate.items():
    print(f"{kind}: {statistics.median(all):,.0f} jobs/s, {min(all):,.0f} to {max(all):,.0f}")
pairs = [b / a for a, b in zip(rate["open"], rate["limited"])]
print(f"limited beside open, of each turn: {statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f}); load average {os.getloadavg()[0]:.1f}")
PY
