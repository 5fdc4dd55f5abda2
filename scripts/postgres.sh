#!/usr/bin/env bash
# A PostgreSQL of its own for tests: its own data directory, port and socket, nothing of the system's.
#
#   scripts/postgres.sh start DIR PORT           makes DIR and a server in it; prints its address
#   scripts/postgres.sh pooler DIR PORT          a PgBouncer in transaction mode before that server
#   scripts/postgres.sh replica DIR PORT FROM [VIA] a replica in DIR of the server in FROM, which is
#                                                asynchronous; it follows on port VIA if one is given
#   scripts/postgres.sh synchronous DIR          the server in DIR acknowledges nothing that its replica lacks
#   scripts/postgres.sh promote DIR              the replica in DIR goes on alone
#   scripts/postgres.sh tls DIR                  the server in DIR gets a certificate of its own authority
#                                                (DIR/ca.pem) for localhost, beside an authority that did
#                                                not sign it (DIR/stranger.pem)
#   scripts/postgres.sh stop DIR                 stops what runs in DIR, the data stays
#   scripts/postgres.sh halt DIR                 stops it without a checkpoint (immediate)
#   scripts/postgres.sh read-only|read-write DIR nothing can be written any more; it can again
#   scripts/postgres.sh crash DIR                stops the server as a power cut would (kill -9)
#   scripts/postgres.sh revive DIR PORT          starts it if it gave up by itself
#   scripts/postgres.sh mount|unmount DIR        DIR is a file system of its own, in an image (needs root)
#   scripts/postgres.sh fill|unfill DIR          no room is left on that file system; there is again
#
# fsync is on: what is tested is what runs. Anybody on this machine may connect (trust), and nobody
# from elsewhere can: it listens on loopback. PostgreSQL does not run as root, so root becomes
# `postgres` here.
set -euo pipefail

fail() { printf 'postgres.sh: %s\n' "$*" >&2; exit 1; }
need() { fail "$1 is missing; install it with: apt-get install -y $2"; }

[ $# -ge 2 ] || fail "usage: scripts/postgres.sh VERB DIR [PORT] [FROM] [VIA]; the verbs are at the top of this file"
verb=$1 dir=$2 port=${3:-}

# Another version than the system's: scripts/postgres-newer.sh says where it lies.
bin=${DULY_POSTGRES_BIN:-}
for place in /usr/lib/postgresql/*/bin; do
    [ -z "${DULY_POSTGRES_BIN:-}" ] && [ -x "$place/initdb" ] && bin=$place
done
[ -n "$bin" ] || bin=$(dirname "$(command -v initdb || echo /missing/initdb)")
[ -x "$bin/initdb" ] || need PostgreSQL postgresql-15

# As the owner of the data: ourselves, or `postgres` for root.
as_owner() {
    if [ "$(id -u)" = 0 ]; then
        (cd / && exec setpriv --reuid postgres --regid postgres --init-groups "$@")
    else
        "$@"
    fi
}

case "$verb" in
start)
    [ -n "$port" ] || fail "start needs a port"
    mkdir -p "$dir"
    [ "$(id -u)" = 0 ] && chown postgres:postgres "$dir"
    if [ ! -e "$dir/data/PG_VERSION" ]; then
        as_owner "$bin/initdb" --pgdata "$dir/data" --username postgres --auth trust \
            --encoding UTF8 --no-locale >"$dir/initdb.log" 2>&1 || fail "initdb failed: see $dir/initdb.log"
        cat >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$dir'
fsync = on
max_connections = 300
shared_buffers = 128MB
max_wal_size = 1GB
log_line_prefix = '%m [%p] '
log_lock_waits = on
CONF
    fi
    as_owner "$bin/pg_ctl" start --pgdata "$dir/data" --wait --silent --log "$dir/server.log" \
        --options "-p $port" >/dev/null || fail "the server does not start: see $dir/server.log"
    echo "postgres://postgres@127.0.0.1:$port/postgres"
    ;;
pooler)
    [ -n "$port" ] || fail "pooler needs a port"
    command -v pgbouncer >/dev/null || need PgBouncer pgbouncer
    server=$(sed -n 4p "$dir/data/postmaster.pid")
    cat >"$dir/pgbouncer.ini" <<CONF
[databases]
* = host=127.0.0.1 port=$server
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
; Fewer than the clients, so that they do share; and every session is somebody else's next time.
default_pool_size = 4
max_client_conn = 500
server_round_robin = 1
admin_users = postgres
logfile = $dir/pgbouncer.log
pidfile = $dir/pgbouncer.pid
CONF
    # With auth_type any the name is in the server's line.
    sed -i "s/^\* = .*/* = host=127.0.0.1 port=$server user=postgres/" "$dir/pgbouncer.ini"
    [ "$(id -u)" = 0 ] && chown postgres:postgres "$dir/pgbouncer.ini"
    as_owner pgbouncer --daemon --quiet "$dir/pgbouncer.ini" || fail "PgBouncer does not start: see $dir/pgbouncer.log"
    # It answers a little after it says that it has started.
    for try in $(seq 500); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
        [ "$try" -lt 500 ] || fail "PgBouncer does not listen: see $dir/pgbouncer.log"
        sleep 0.02
    done
    echo "postgres://postgres@127.0.0.1:$port/postgres"
    ;;
replica)
    from=${4:-}
    [ -n "$port" ] && [ -n "$from" ] || fail "replica needs a port and the folder of the server it follows"
    mkdir -p "$dir"
    [ "$(id -u)" = 0 ] && chown postgres:postgres "$dir"
    server=$(sed -n 4p "$from/data/postmaster.pid")
    [ -x "$bin/pg_basebackup" ] || fail "$bin has no pg_basebackup, so there is no replica of that version"
    as_owner "$bin/pg_basebackup" --host 127.0.0.1 --port "$server" --username postgres --pgdata "$dir/data" \
        --write-recovery-conf --checkpoint fast >"$dir/basebackup.log" 2>&1 || fail "no copy: see $dir/basebackup.log"
    sed -i "s|^unix_socket_directories = .*|unix_socket_directories = '$dir'|" "$dir/data/postgresql.conf"
    if [ -n "${5:-}" ]; then sed -i "/^primary_conninfo/s/port=$server/port=$5/" "$dir/data/postgresql.auto.conf"; fi
    as_owner "$bin/pg_ctl" start --pgdata "$dir/data" --wait --silent --log "$dir/server.log" \
        --options "-p $port" >/dev/null || fail "the replica does not start: see $dir/server.log"
    echo "postgres://postgres@127.0.0.1:$port/postgres"
    ;;
synchronous)
    ask() { as_owner "$bin/psql" --host "$dir" --port "$(sed -n 4p "$dir/data/postmaster.pid")" --username postgres -Atc "$1"; }
    ask "ALTER SYSTEM SET synchronous_standby_names = '*'" >/dev/null
    as_owner "$bin/pg_ctl" reload --pgdata "$dir/data" --silent
    for try in $(seq 500); do
        [ "$(ask "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")" = 1 ] && break
        [ "$try" -lt 500 ] || fail "no replica follows: see $dir/server.log"
        sleep 0.02
    done
    ;;
revive)
    first=$(head -1 "$dir/data/postmaster.pid" 2>/dev/null || true)
    if [ -z "$first" ] || [ ! -e "/proc/$first" ] || grep -q '^State:.*Z' "/proc/$first/status"; then
        rm -f "$dir/data/postmaster.pid" "$dir"/.s.PGSQL.*
        exec "$0" start "$dir" "$port"
    fi
    ;;
mount)
    [ "$(id -u)" = 0 ] || fail "a file system of its own needs root"
    # Sparse: it takes what is written, not what it could hold. Nothing is kept back for root.
    truncate --size 12G "$dir.image"
    mkfs.ext4 -q -F -m 0 "$dir.image"
    mount -o loop "$dir.image" "$dir"
    chmod 755 "$dir"
    ;;
unmount)
    if mountpoint --quiet "$dir"; then umount "$dir" || umount --lazy "$dir"; fi
    rm -f "$dir.image"
    ;;
fill)
    mountpoint --quiet "$dir" || fail "$dir is no file system of its own"
    # Blocks are reserved, not written; the last ones by trial.
    left=$(df --output=avail --block-size=1 "$dir" | tail -1)
    fallocate --length "$left" "$dir/filler" 2>/dev/null || true
    dd if=/dev/zero of="$dir/filler-rest" bs=4096 2>/dev/null || true
    ;;
unfill)
    rm -f "$dir/filler" "$dir/filler-rest"
    ;;
promote)
    as_owner "$bin/pg_ctl" promote --pgdata "$dir/data" --wait --silent || fail "it is not promoted: see $dir/server.log"
    ;;
tls)
    command -v openssl >/dev/null || need openssl openssl
    for authority in ca stranger; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$authority" \
            -keyout "$dir/$authority.key" -out "$dir/$authority.pem" 2>/dev/null
    done
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=localhost" \
        -keyout "$dir/data/server.key" -out "$dir/server.csr" 2>/dev/null
    openssl x509 -req -in "$dir/server.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -CAcreateserial -days 2 \
        -extfile <(printf 'subjectAltName=DNS:localhost') -out "$dir/data/server.crt" 2>/dev/null
    chmod 600 "$dir/data/server.key"
    if [ "$(id -u)" = 0 ]; then chown postgres:postgres "$dir/data/server.key" "$dir/data/server.crt"; fi
    chmod a+r "$dir/ca.pem" "$dir/stranger.pem"
    echo "ssl = on" >>"$dir/data/postgresql.conf"
    # Only those who use it are heard, except through the socket.
    sed -i 's/^host\b/hostssl/' "$dir/data/pg_hba.conf"
    as_owner "$bin/pg_ctl" restart --pgdata "$dir/data" --wait --silent --log "$dir/server.log" >/dev/null ||
        fail "the server does not start with TLS: see $dir/server.log"
    ;;
stop)
    if [ -e "$dir/pgbouncer.pid" ]; then kill "$(cat "$dir/pgbouncer.pid")" 2>/dev/null || true; fi
    if [ -e "$dir/data/postmaster.pid" ] && [ -e "/proc/$(head -1 "$dir/data/postmaster.pid")" ]; then
        as_owner "$bin/pg_ctl" stop --pgdata "$dir/data" --mode fast --wait --silent
    fi
    ;;
halt)
    as_owner "$bin/pg_ctl" stop --pgdata "$dir/data" --mode immediate --wait --silent
    ;;
read-only | read-write)
    # In the file itself: once it is read-only no statement could take it back.
    conf=$dir/data/postgresql.auto.conf
    as_owner sed -i '/^default_transaction_read_only/d' "$conf"
    # Appended as it stands, so that the file stays its owner's.
    [ "$verb" = read-write ] || echo 'default_transaction_read_only = on' >>"$conf"
    as_owner "$bin/pg_ctl" reload --pgdata "$dir/data" --silent
    ;;
crash)
    # The server and its children: none of them gets to write anything.
    first=$(head -1 "$dir/data/postmaster.pid")
    # Stopped first, so that it makes no more of them.
    kill -STOP "$first"
    mapfile -t children < <(cat "/proc/$first/task/$first/children" | tr ' ' '\n' | grep .)
    kill -9 "$first" "${children[@]}"
    # Gone when the kernel says so, not when the signal is sent.
    for pid in "$first" "${children[@]}"; do
        while [ -e "/proc/$pid" ] && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null; do sleep 0.01; done
    done
    # Where nobody collects the dead, the next server would take the number for a living one.
    rm -f "$dir/data/postmaster.pid" "$dir"/.s.PGSQL.*
    ;;
*) fail "unknown verb $verb" ;;
esac
