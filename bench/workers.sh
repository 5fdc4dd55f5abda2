#!/usr/bin/env bash
# One worker process of each SDK beside those of BullMQ and Celery, in one run: runs per second that do nothing, how long
# after its time a run reaches an idle worker's handler, and how long a killed worker's runs take to run again. Then what
# 1,000 workers that wait cost the server. bench/workers.sh [SCALE]; on a quiet machine, everything on loopback.
# DULY_BIN names another server than the release build. WORKERS_REPETITIONS, WORKERS_ONLY ("Rust;BullMQ") and
# WORKERS_WORKS (drain,noop,spread,killed) take less. Run it with `nice -n -15` where other work cannot be stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
idle_workers=1000
idle_seconds=60

for part in target/sdks/venv/bin/python sdks/typescript/node_modules; do
    [ -e "$part" ] || { echo "workers: $part is missing; scripts/sdks.sh installs it" >&2; exit 1; }
done
for part in target/peers/node/node_modules target/peers/python/bin/python; do
    [ -e "$part" ] || { echo "workers: $part is missing; bench/peers/setup.sh installs it" >&2; exit 1; }
done
if [ -z "${DULY_BIN:-}" ]; then
    cargo build --quiet --release -p duly
    export DULY_BIN=$PWD/target/release/duly
fi
cargo build --quiet --release -p duly-client --examples
(cd sdks/typescript && node node_modules/typescript/bin/tsc -p tsconfig.json)

echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg), cores: $(nproc)"
timeout 1800 python3 bench/peers/runner --contest workers --scale "${1:-1}" --repetitions "${WORKERS_REPETITIONS:-3}" \
    --peers "${WORKERS_ONLY:-}" --works "${WORKERS_WORKS:-}"
[ -z "${WORKERS_WORKS:-}" ] || exit 0

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
before=$(cpu)
timeout 600 target/release/examples/idle_workers "$idle_workers" "$idle_seconds"
after=$(cpu)
awk -v a="$before" -v b="$after" -v s="$idle_seconds" \
    'BEGIN {printf "  server: %.2f s of CPU in %d s: %.1f %% of a core\n", b - a, s, (b - a) / s * 100}'
echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg)"
