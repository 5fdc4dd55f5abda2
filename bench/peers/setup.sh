#!/usr/bin/env bash
# Installs the peers that duly is measured beside, and builds what measures them. Everything lands in
# target/peers, except system packages; versions are those of the lock files here. Quiet when it is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf 'bench/peers/setup.sh: %s\n' "$*" >&2; }

need_package() { # command, package
    command -v "$1" >/dev/null 2>&1 && return
    say "installing the system package $2 (for $1)"
    local sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null
}

need_package npm npm
need_package python3 python3
need_package redis-server redis-server
need_package redis-cli redis-tools
[ -n "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || need_package initdb postgresql-15
need_package psql postgresql-client-15

# The stamp of a folder is the sum of what it was made from.
sum() { cat "$@" | sha256sum | cut -c1-16; }

here=bench/peers there=target/peers
mkdir -p "$there/node"

# The drivers stand beside what they import.
cp "$here"/node/*.mjs "$here"/node/package.json "$here"/node/package-lock.json "$here"/node/.npmrc "$there/node/"
stamp="$there/node/.installed-$(sum "$here/node/package-lock.json")"
if [ ! -e "$stamp" ]; then
    say "installing graphile-worker, pg-boss, BullMQ and a Node they all run on into $there/node"
    # As locked. Not `npm ci`, which also wants packages of other platforms to be there.
    (cd "$there/node" && npm install --no-save --no-fund --no-audit --loglevel=error >/dev/null)
    rm -f "$there"/node/.installed-*
    touch "$stamp"
fi

stamp="$there/python/.installed-$(sum "$here/python/requirements.txt")"
if [ ! -e "$stamp" ]; then
    say "installing Celery into $there/python"
    rm -rf "$there/python"
    if ! python3 -m venv "$there/python" 2>/dev/null; then
        need_package "python3-venv is never a command" python3-venv
        python3 -m venv "$there/python"
    fi
    "$there/python/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$here/python/requirements.txt"
    touch "$stamp"
fi

# Cargo says nothing when there is nothing to do.
cargo build --quiet --release -p duly
cargo build --quiet --release --locked --manifest-path "$here/rust/Cargo.toml" --target-dir "$there/rust"
