#!/usr/bin/env bash
# A Redis of its own: its own folder and port, nothing of the system's. What is written is in a file of
# its own (appendonly), flushed as said.
#
#   scripts/redis.sh start DIR PORT [everysec|always]   a server on 127.0.0.1:PORT; prints its address
#   scripts/redis.sh stop DIR                           stops what runs in DIR, the data stays
set -euo pipefail

fail() { printf 'redis.sh: %s\n' "$*" >&2; exit 1; }

[ $# -ge 2 ] || fail "usage: scripts/redis.sh start|stop DIR [PORT] [everysec|always]"
verb=$1 dir=$2 port=${3:-} flush=${4:-everysec}

case "$verb" in
start)
    [ -n "$port" ] || fail "start needs a port"
    command -v redis-server >/dev/null || fail "Redis is missing; install it with: apt-get install -y redis-server"
    mkdir -p "$dir"
    dir=$(cd "$dir" && pwd)
    # No snapshots beside the file: they would cost every peer the same for nothing.
    redis-server --bind 127.0.0.1 --port "$port" --dir "$dir" --save '' --appendonly yes \
        --appendfsync "$flush" --daemonize yes --pidfile "$dir/pid" --logfile "$dir/server.log" >/dev/null
    for try in $(seq 250); do
        [ "$(redis-cli -p "$port" PING 2>/dev/null || true)" = PONG ] && break
        [ "$try" -lt 250 ] || fail "it does not answer: see $dir/server.log"
        sleep 0.02
    done
    echo "redis://127.0.0.1:$port"
    ;;
stop)
    [ -e "$dir/pid" ] || exit 0
    pid=$(cat "$dir/pid")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 250); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.02
    done
    ;;
*) fail "unknown verb $verb" ;;
esac
