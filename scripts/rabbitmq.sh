#!/usr/bin/env bash
# A RabbitMQ of its own for tests: its own folder, ports, cookie and name service, nothing of the system's.
#
#   scripts/rabbitmq.sh start DIR PORT           a broker on 127.0.0.1:PORT and its HTTP API on PORT+1, user
#                                                duly, password hush; returns when it answers
#   scripts/rabbitmq.sh stop DIR                 stops what runs in DIR
#
# PORT+2 and PORT+3 are used, too: Erlang's name service and its connections between nodes. Everything
# listens on loopback.
set -euo pipefail

fail() { printf 'rabbitmq.sh: %s\n' "$*" >&2; exit 1; }
[ $# -ge 2 ] || fail "usage: scripts/rabbitmq.sh start|stop DIR [PORT]"
verb=$1 dir=$2 port=${3:-}
bin=/usr/lib/rabbitmq/bin
[ -x "$bin/rabbitmq-server" ] || fail "RabbitMQ is missing; install it with: apt-get install -y rabbitmq-server"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ -n "$port" ]; then
    printf '%s\n' "$port" >"$dir/port"
else
    port=$(cat "$dir/port" 2>/dev/null) || fail "nothing was started in $dir"
fi
export HOME=$dir RABBITMQ_NODENAME=duly$port@localhost
export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$port RABBITMQ_DIST_PORT=$((port + 3))
export ERL_EPMD_PORT=$((port + 2)) ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_MNESIA_BASE=$dir/mnesia RABBITMQ_LOG_BASE=$dir/log RABBITMQ_PID_FILE=$dir/pid
export RABBITMQ_CONFIG_FILE=$dir/rabbitmq RABBITMQ_ENABLED_PLUGINS_FILE=$dir/plugins
export RABBITMQ_CONF_ENV_FILE=$dir/none RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1"

case "$verb" in
start)
    cat >"$dir/rabbitmq.conf" <<CONF
default_user = duly
default_pass = hush
management.tcp.ip = 127.0.0.1
management.tcp.port = $((port + 1))
loopback_users = none
CONF
    echo '[rabbitmq_management].' >"$dir/plugins"
    "$bin/rabbitmq-server" >"$dir/server.log" 2>&1 &
    for _ in $(seq 300); do
        if curl -sf -u duly:hush "http://127.0.0.1:$((port + 1))/api/overview" >/dev/null 2>&1; then
            exit 0
        fi
        kill -0 $! 2>/dev/null || fail "it does not start: see $dir/server.log"
        sleep 0.2
    done
    fail "it does not answer: see $dir/server.log"
    ;;
stop)
    [ -e "$dir/pid" ] && kill "$(cat "$dir/pid")" 2>/dev/null || true
    for _ in $(seq 100); do
        [ -e "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
        sleep 0.1
    done
    # It does not go while it knows of a node that has just died.
    for _ in $(seq 50); do
        epmd -port $((port + 2)) -names >/dev/null 2>&1 || break
        epmd -port $((port + 2)) -kill >/dev/null 2>&1 || true
        sleep 0.1
    done
    ;;
*) fail "unknown: $verb" ;;
esac
