#!/bin/sh
# duly alone on its embedded store: every work of `duly bench` several times, in turns, then what an idle
# server costs. Prints a table beside the last recorded one and writes bench/results/embedded.{json,md,svg}.
#   scripts/bench.sh [REPETITIONS]     3 repetitions take about 4 minutes with the build
# Nothing else should run meanwhile: the load shares the machine with the server. BENCH_NOTE="..." is kept with
# the results.
set -eu
cd "$(dirname "$0")/.."
times=${1:-3}
cargo build --quiet --release -p duly -p bench-load
bin=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d "${CARGO_TARGET_DIR:-target}/bench.XXXXXX")
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT INT TERM
port=7179
url=http://127.0.0.1:$port

start() {
    "$bin/duly" serve --data "$work/data-$1" --listen 127.0.0.1:$port >"$work/log-$1" 2>&1 &
    server=$!
    tries=0
    until curl -fs "$url/readyz" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { cat "$work/log-$1" >&2; exit 1; }
        sleep 0.1
    done
}
stop() {
    kill "$server"
    wait "$server" || true
    server=
    rm -rf "$work/data-$1"
}
one() { # WORK JOBS [OPTIONS]: one line of JSON
    name=$1 jobs=$2
    shift 2
    "$bin/duly" bench "$name" --jobs "$jobs" --url "$url" --json "$@" | tr -d '\n' >>"$work/rows"
    echo >>"$work/rows"
}
commits() { curl -fs "$url/metrics" | sed -n 's/^duly_store_seconds_count{call="commit"} //p'; }
ticks() { awk '{print $14 + $15}' "/proc/$server/stat"; }

# Idle first, on a fresh server.
start idle
sleep 3
idle_seconds=10
before_ticks=$(ticks) before_commits=$(commits)
sleep $idle_seconds
after_ticks=$(ticks) after_commits=$(commits)
rss=$(awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$server/status")
hertz=$(getconf CLK_TCK)
cpu=$(awk "BEGIN {printf \"%.2f\", ($after_ticks - $before_ticks) * 100 / $hertz / $idle_seconds}")
rate=$(awk "BEGIN {printf \"%.2f\", (${after_commits:-0} - ${before_commits:-0}) / $idle_seconds}")
stop idle

round=1
while [ $round -le "$times" ]; do
    [ ! -t 2 ] || echo "repetition $round of $times" >&2
    # A fresh store each time: "empty" is part of what is measured.
    start $round
    one submit 100000 --connections 4
    # A job costs its producer one request and its worker two: so neither runs away from the other.
    one noop 60000 --connections 8 --batch 250
    one single 30000
    one webhook 20000 --connections 4
    one burst 10000 --connections 20
    one burst-webhook 10000 --connections 4
    one spread 10000 --connections 4
    stop $round
    round=$((round + 1))
done
load=$(cut -d' ' -f1 /proc/loadavg)
about="$(date -u +%F), $(nproc) cores, $(awk '/MemTotal/ {printf "%.0f GiB", $2 / 1048576}' /proc/meminfo), Linux $(uname -r), $times repetitions, load average $load at the end${BENCH_NOTE:+; $BENCH_NOTE}"
"$bin/bench-report" bench/results embedded "$about" "$cpu" "$rate" "$rss" <"$work/rows"
