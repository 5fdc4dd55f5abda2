#!/usr/bin/env bash
# What one worker process of each SDK does per second with runs that do nothing, and what 1,000 workers that wait cost the
# server: bench/workers.sh [RUNS]. On a quiet machine; everything on loopback, the embedded store in a folder of its own.
# DULY_BIN names another server than the release build. Prints the load before and after, and the figures.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-50000}
idle_workers=1000
idle_seconds=60

if [ -z "${DULY_BIN:-}" ]; then
    cargo build --quiet --release -p duly
    DULY_BIN=$PWD/target/release/duly
fi
cargo build --quiet --release -p duly-client --examples
examples=$PWD/target/release/examples

folder=$(mktemp -d)
"$DULY_BIN" serve --listen 127.0.0.1:0 --data "$folder/data" --log-level error >"$folder/out" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -r "$folder"' EXIT
for _ in $(seq 100); do
    grep -q '^ *ready' "$folder/out" && break
    sleep 0.1
done
DULY_URL=$(awk '$1 == "address" {print $2}' "$folder/out")
[ -n "$DULY_URL" ] || { echo "workers: the server did not become ready" >&2; exit 1; }
export DULY_URL

# Seconds of CPU that the server has used.
cpu() { awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) / hz}' "/proc/$server/stat"; }
measured() {
    local before after
    before=$(cpu)
    timeout 600 "$@"
    after=$(cpu)
    awk -v a="$before" -v b="$after" 'BEGIN {printf "  server: %.1f s of CPU\n", b - a}'
}

echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg), cores: $(nproc)"
measured "$examples/throughput" "$runs"
if [ -x target/sdks/venv/bin/python ]; then
    measured target/sdks/venv/bin/python sdks/python/bench/throughput.py "$runs"
    measured target/sdks/venv/bin/python sdks/python/bench/throughput.py --sync "$runs"
else
    echo "python: scripts/sdks.sh installs it"
fi
if [ -e sdks/typescript/out/bench/throughput.js ]; then
    measured node sdks/typescript/out/bench/throughput.js "$runs"
else
    echo "typescript: scripts/sdks.sh builds it"
fi
before=$(cpu)
timeout 600 "$examples/idle_workers" "$idle_workers" "$idle_seconds"
after=$(cpu)
awk -v a="$before" -v b="$after" -v s="$idle_seconds" \
    'BEGIN {printf "  server: %.2f s of CPU in %d s: %.1f %% of a core\n", b - a, s, (b - a) / s * 100}'
echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg)"
