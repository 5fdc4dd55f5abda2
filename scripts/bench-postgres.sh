#!/usr/bin/env bash
# What the PostgreSQL store and small clusters on it do, on a server of their own. One part at a time:
#
#   scripts/bench-postgres.sh lifecycle [SECONDS] [TURNS]   submit, claim, settle against bare SQL: 256 and 512, 1 and 2 lanes
#   scripts/bench-postgres.sh server [JOBS]                 the same through one node: duly bench noop, three times
#   scripts/bench-postgres.sh bursts [TIMES]                10,000 jobs due at one instant (30 times), each fifth time on a new
#                                                           database; between them autovacuum does as it likes
#   scripts/bench-postgres.sh reload [RUNS]                 taking a shard with so many ready runs (5,000,000)
#   scripts/bench-postgres.sh idle [SECONDS]                commits of three nodes with nothing to do, as the server counts them
#   scripts/bench-postgres.sh old [MINUTES] [TURNS]         an old transaction held open (10): lifecycles before (6) and during it,
#                                                           and takeovers during it, first of another duly if BEFORE names one
#   scripts/bench-postgres.sh history [ROWS] [TURNS]        so many rows of history in today's table (10,000,000): lifecycles
#                                                           with and without them in turns (6), and takeovers with them
#   scripts/bench-postgres.sh rolling [ROUNDS] [DULY]       rolling restarts of three nodes under recurring webhooks: how late
#                                                           first attempts were handed out
#   scripts/bench-postgres.sh queues [JOBS_PER_SECOND]      three nodes, workers that take from twelve queues at once, 20 s
#
# Needs `cargo build --release -p duly` and `cargo build --release -p store-postgres --examples`. What is measured
# here shares the machine with whatever else it does: look at `uptime` before and after.
set -euo pipefail
cd "$(dirname "$0")/.."
duly=${DULY:-target/release/duly}
life=target/release/examples/postgres_lifecycle
# Ten ports of its own: the database, nodes 1 to 3, a receiver.
port=$((20000 + RANDOM % 1000 * 10))
dir=$(mktemp -d /tmp/duly-bench-postgres.XXXXXX)
chmod 755 "$dir"
pids=()
end() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    scripts/postgres.sh stop "$dir/server" || true
    rm -rf "$dir"
}
trap end EXIT
scripts/postgres.sh start "$dir/server" "$port" >/dev/null
base=postgres://postgres@127.0.0.1:$port
sql() { psql -qAtX -h 127.0.0.1 -p "$port" -U postgres "$@"; }
db=0
database() { db=$((db + 1)); sql -d postgres -c "CREATE DATABASE b$db"; address=$base/b$db; }

# node NUMBER: a node on $address, at the port that many after the database's.
node() {
    mkdir -p "$dir/node$1"
    "$duly" serve --store "$address" --node "$1" --data "$dir/node$1" --listen "127.0.0.1:$((port + $1))" \
        --log-level warn >"$dir/node$1.log" 2>&1 &
    pids+=($!)
    for _ in $(seq 600); do grep -q '^ready' "$dir/node$1.log" && return; sleep 0.05; done
    cat "$dir/node$1.log"; exit 1
}
metric() { curl -s "http://127.0.0.1:$((port + $1))/metrics" | awk -v name="$2" '$1 == name { print $2 }'; }
# Until all of these nodes have shards, and together all of them.
settled() {
    for _ in $(seq 600); do
        local sum=0 least=256 count
        for n in "$@"; do
            count=$(metric "$n" duly_shards_live); sum=$((sum + count)); [ "$count" -lt "$least" ] && least=$count
        done
        [ "$sum" = 256 ] && [ "$least" -gt $((128 / $#)) ] && return
        sleep 0.05
    done
    echo "the shards are not spread"; exit 1
}

# takeovers DULY: two nodes on $address, one is killed three times; until the other has every shard.
takeovers() {
    duly=$1
    node 1; node 2; settled 1 2
    for _ in 1 2 3; do
        kill -9 "${pids[-1]}"; killed=$(date +%s%N); unset 'pids[-1]'
        until [ "$(metric 1 duly_shards_live)" = 256 ]; do sleep 0.01; done
        echo "$duly: all shards live again after $((($(date +%s%N) - killed) / 1000000)) ms"
        node 2; settled 1 2
    done
    for pid in "${pids[@]: -2}"; do kill "$pid"; wait "$pid" || true; done
    unset 'pids[-1]' 'pids[-1]'
}

part=${1:-}
case "$part" in
lifecycle)
    for batch in 256 512; do for lanes in 1 2; do
        database
        echo "batch $batch, lanes $lanes:"
        "$life" "$address" "$batch" "${2:-5}" "${3:-5}" "$lanes"
    done; done
    ;;
server)
    database; node 1
    # A job costs its producer one request and its worker two: so neither runs away from the other.
    for _ in 1 2 3; do
        "$duly" bench noop --jobs "${2:-50000}" --connections 4 --batch 250 --url http://127.0.0.1:$((port + 1))
    done
    ;;
bursts)
    for n in $(seq 0 $((${2:-30} - 1))); do
        if [ $((n % 5)) = 0 ]; then
            for pid in "${pids[@]}"; do kill "$pid"; wait "$pid" || true; done
            pids=(); database; node 1
        fi
        "$duly" bench burst --jobs 10000 --connections 20 --json --url http://127.0.0.1:$((port + 1)) |
            python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))'
        grep WARN "$dir/node1.log" || true
    done
    ;;
queues)
    database; node 1; node 2; node 3; settled 1 2 3
    python3 bench/queues.py 20 "${2:-6000}" $((port + 1)) $((port + 2)) $((port + 3))
    ;;
reload)
    database; node 1
    for _ in 1; do
        curl -s http://127.0.0.1:$((port + 1))/v1/jobs -H 'Content-Type: application/json' \
            -d '{"queue":"big","target":{"worker":{"kind":"k"}}}' >/dev/null
    done
    kill "${pids[0]}"; wait "${pids[0]}" || true; pids=()
    columns=$(sql -d "b$db" -c "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = 'duly.runs'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('id', 'due')")
    sql -d "b$db" -c "INSERT INTO duly.runs (id, due, $columns)
        SELECT substring(id FROM 1 FOR 9) || substring(int8send(g) FROM 2 FOR 7) || substring(id FROM 17), due + g, $columns
        FROM duly.runs, generate_series(1, ${2:-5000000}) AS g" -c "ANALYZE duly.runs"
    shard=$(sql -d "b$db" -c "SELECT shard FROM duly.runs LIMIT 1")
    sql -d "b$db" -c "SELECT count(*) || ' ready runs in shard ' || $shard FROM duly.runs WHERE state = 2 AND shard = $shard"
    # The node ended its lease; whoever asks may take.
    target/release/examples/postgres_reload "$address" "$shard" 21
    ;;
idle)
    database; node 1; node 2; node 3; settled 1 2 3
    seconds=${2:-60}
    sleep 15
    commits() { sql -d postgres -c "SELECT xact_commit FROM pg_stat_database WHERE datname = 'b$db'"; }
    # The server's own cleaners commit, too.
    sql -d postgres -c "ALTER SYSTEM SET autovacuum = off" -c "SELECT pg_reload_conf()" >/dev/null
    for _ in 1 2 3; do
        before=$(commits); sleep "$seconds"; after=$(commits)
        echo "$before $after $seconds" | awk '{ printf "%d commits in %d s: %.3f per node and second\n", $2 - $1, $3, ($2 - $1) / $3 / 3 }'
    done
    ;;
old)
    minutes=${2:-10}
    database
    echo "without:"; "$life" "$address" 256 10 "${3:-6}" 1
    mkfifo "$dir/hold"
    sql -d "b$db" <"$dir/hold" >/dev/null &
    pids+=($!)
    exec 9>"$dir/hold"
    echo "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM duly.runs;" >&9
    began=$(date +%s)
    while [ $(($(date +%s) - began)) -lt $((minutes * 60 - 70)) ]; do
        echo "open for $(($(date +%s) - began)) s:"; "$life" "$address" 256 10 3 1
    done
    echo "open for $(($(date +%s) - began)) s, a takeover:"
    # What the turns left unfinished in one shard would be loaded by its new owner, page by page; no node holds
    # so many leases. As dead rows they stay.
    sql -d "b$db" -c "DELETE FROM duly.leases" -c "DELETE FROM duly.runs"
    sql -d "b$db" -c "SELECT relname || ': ' || n_dead_tup || ' dead' FROM pg_stat_user_tables WHERE relname IN ('runs', 'leases')"
    for each in ${BEFORE:-} "$duly"; do takeovers "$each"; done
    echo "open for $(($(date +%s) - began)) s:"
    sql -d postgres -c "SELECT now() - min(xact_start) FROM pg_stat_activity WHERE datname = 'b$db' AND state = 'idle in transaction'"
    exec 9>&-
    ;;
history)
    rows=${2:-10000000}
    database; empty=$address
    database; full=$address
    for address in "$empty" "$full"; do "$life" "$address" 256 2 1 1 >/dev/null; done
    table=$(sql -d "b$db" -c "SELECT name FROM duly.history_tables WHERE failures = 0 ORDER BY day LIMIT 1")
    columns=$(sql -d "b$db" -c "SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute
        WHERE attrelid = 'duly.$table'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('run', 'hid')")
    sql -d "b$db" -c "INSERT INTO duly.$table (run, $columns)
        SELECT substring(run FROM 1 FOR 9) || substring(int8send(g) FROM 2 FOR 7) || substring(run FROM 17), $columns
        FROM (SELECT * FROM duly.$table LIMIT 1) AS one, generate_series(1, $rows) AS g" -c "CHECKPOINT"
    sql -d "b$db" -c "SELECT count(*) || ' rows in $table, ' || pg_size_pretty(pg_total_relation_size('duly.$table')) FROM duly.$table"
    for _ in $(seq "${3:-6}"); do
        echo "without:"; "$life" "$empty" 256 5 1 1
        echo "with:"; "$life" "$full" 256 5 1 1
    done
    # As above; and the lease of whoever measured is long.
    sql -d "b$db" -c "DELETE FROM duly.leases" -c "DELETE FROM duly.runs" -c "DELETE FROM duly.nodes"
    takeovers "$duly"
    ;;
rolling)
    duly=${3:-$duly}
    database; node 1; node 2; node 3; settled 1 2 3
    "$duly" listen --port $((port + 9)) >/dev/null 2>&1 &
    pids+=($!)
    for n in $(seq 100); do
        curl -s "http://127.0.0.1:$((port + 1 + n % 3))/v1/jobs" -H 'Content-Type: application/json' -d \
            "{\"queue\":\"rolling-$n\",\"schedule\":{\"every\":\"1s\"},\"target\":{\"http\":{\"url\":\"http://127.0.0.1:$((port + 9))/\"}}}" >/dev/null
    done
    sleep 5
    # What a process has counted goes with it, so it is written down before.
    skew() { curl -s "http://127.0.0.1:$((port + $1))/metrics" | grep '^duly_fire_skew_seconds_bucket' | sed 's/.*le="\([^"]*\)"} /\1 /'; }
    show() { awk '{ sum[$1] += $2 } END { for (le in sum) print le, sum[le] }' "$1" | sort -g |
        awk '{ le[NR] = $1; n[NR] = $2 } END { for (i = 1; i <= NR; i++) printf "  within %s s: %.3f %% of %d\n", le[i], 100 * n[i] / n[NR], n[NR] }'; }
    for n in 1 2 3; do skew "$n" | awk '{ print $1, -$2 }'; done >"$dir/skew"
    for _ in $(seq "${2:-3}"); do
        for n in 1 2 3; do
            skew "$n" >>"$dir/skew"
            kill "${pids[$((n - 1))]}"; wait "${pids[$((n - 1))]}" || true
            node "$n"; pids[$((n - 1))]=${pids[-1]}; unset 'pids[-1]'
            settled 1 2 3
        done
    done
    for n in 1 2 3; do skew "$n"; done >>"$dir/skew"
    show "$dir/skew"
    for n in 1 2 3; do metric "$n" duly_shards_received_total; done
    ;;
*) sed -n '2,/^set/p' "$0" | grep '^#'; exit 2 ;;
esac
