#!/usr/bin/env bash
# How many instructions the whole server needs for a job: HTTP, driver, core, embedded store, webhooks. Counted with
# valgrind over two runs of `duly serve` that differ only in how many jobs they do, so that its start and its end
# do not count. One connection asks one thing after the other, so that commits are as large each time.
#   scripts/count-server.sh BINARY       a line a case: drain (submit, claim, settle), webhook
set -euo pipefail
shopt -s inherit_errexit
duly=$1
FEW=500 MANY=2000
# Until it is ready, and for the jobs; both take some seconds under valgrind.
SECONDS_MAX=120
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

start() {
    rm -rf "$folder/data"
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$duly" serve --listen 127.0.0.1:0 \
        --data "$folder/data" --log-level error --allow-egress 127.0.0.0/8 >"$folder/out" 2>"$folder/err" &
    server=$!
    for _ in $(seq $((SECONDS_MAX * 10))); do
        ! grep -q '^ready$' "$folder/out" || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "count-server: duly did not start under valgrind" >&2
    cat "$folder/err" >&2
    exit 1
}

instructions() { # WORK JOBS; the count is in $counted
    start
    "$duly" bench "$1" --jobs "$2" --connections 1 --batch 500 --time-limit $SECONDS_MAX --json \
        --url "$(sed -n 's/^ *address  //p' "$folder/out")" >"$folder/row"
    grep -q '"missing": *0' "$folder/row" || { cat "$folder/row" >&2; exit 1; }
    kill "$server"
    wait "$server" || true
    server=
    counted=$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$folder/err")
    [ -n "$counted" ] || { cat "$folder/err" >&2; exit 1; }
}

for work in drain webhook; do
    instructions $work $FEW
    few=$counted
    instructions $work $MANY
    echo "server_$work $(((counted - few) / (MANY - FEW)))"
done
