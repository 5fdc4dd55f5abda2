#!/usr/bin/env bash
# Installs what the tests need and the workspace does not build itself: real databases and brokers,
# the independent cron and calendar implementations that ours is compared with, and the library that
# checks our signatures. Says nothing when everything is there.
#
# Everything lands in target/tools, except system packages. Versions are pinned: a new release of
# a peer must show up as a change in this file and not as a test that fails overnight.
set -euo pipefail
cd "$(dirname "$0")/.."

CRONSIM=2.8
# The release of the time zone database that the bundled one in Cargo.lock carries (2026e). Peers
# must read the same zones, or every difference between two releases looks like our bug.
TZDATA=2026.5
CRONER=11.0.0
SCHEMATHESIS=4.32.5
# The official library of Standard Webhooks checks our signatures.
STANDARDWEBHOOKS=1.1.1

tools=target/tools
mkdir -p "$tools"

say() { printf 'setup-tools: %s\n' "$*" >&2; }

need_package() { # command, package
    command -v "$1" >/dev/null 2>&1 && return
    say "installing the system package $2 (for $1)"
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

need_package python3 python3
need_package node nodejs
need_package npm npm
need_package systemd-analyze systemd
need_package valgrind valgrind
# The PostgreSQL store is tested with the real server, alone and behind a pooler.
[ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || need_package initdb postgresql-15
need_package pgbouncer pgbouncer
# Its certificate is made for the test of TLS.
need_package openssl openssl
# Messages are published to real brokers, each started by the test that needs it.
need_package redis-server redis-server
need_package redis-cli redis-tools
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || need_package rabbitmq-server rabbitmq-server
# `duly top` is tried in a pseudo-terminal.
need_package script bsdutils
# The dashboard is looked at in a real browser.
need_package chromium chromium
# The README's tour is run as it is written, with curl.
need_package curl curl
# A failing fsync is injected with strace; a full disk is a small file system of its own.
need_package strace strace
need_package mkfs.ext4 e2fsprogs
need_package mount mount
# Nodes of a chaos cluster live in network namespaces.
need_package ip iproute2

stamp="$tools/venv/.installed-cronsim-$CRONSIM-tzdata-$TZDATA"
if [ ! -e "$stamp" ]; then
    say "installing cronsim $CRONSIM and tzdata $TZDATA into $tools/venv"
    if ! python3 -m venv "$tools/venv" 2>/dev/null; then
        need_package "python3-venv is never a command" python3-venv
        python3 -m venv "$tools/venv"
    fi
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check \
        "cronsim==$CRONSIM" "tzdata==$TZDATA"
    rm -f "$tools/venv"/.installed-*
    touch "$stamp"
fi

# Its own environment: it brings many packages, and no peer of the calendar shall see them.
stamp="$tools/schemathesis/.installed-$SCHEMATHESIS"
if [ ! -e "$stamp" ]; then
    say "installing schemathesis $SCHEMATHESIS into $tools/schemathesis"
    python3 -m venv "$tools/schemathesis"
    "$tools/schemathesis/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$SCHEMATHESIS"
    rm -f "$tools/schemathesis"/.installed-*
    touch "$stamp"
fi

stamp="$tools/node/.installed-croner-$CRONER-standardwebhooks-$STANDARDWEBHOOKS"
if [ ! -e "$stamp" ]; then
    say "installing croner $CRONER and standardwebhooks $STANDARDWEBHOOKS into $tools/node"
    mkdir -p "$tools/node"
    # A package file of its own keeps npm from looking for one further up.
    printf '{"private":true,"type":"module"}\n' >"$tools/node/package.json"
    npm install --prefix "$tools/node" --no-fund --no-audit --loglevel=error \
        "croner@$CRONER" "standardwebhooks@$STANDARDWEBHOOKS" >/dev/null
    rm -f "$tools/node"/.installed-*
    touch "$stamp"
fi
