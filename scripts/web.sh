#!/usr/bin/env bash
# The dashboard: builds it, lints it, checks its types, runs its tests, and looks at it in a browser against
# the real binary. scripts/web.sh build stops after the build, which is what `make web` does.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null 2>&1 || {
    echo "web: npm is missing; install Node 20.19 or newer (Debian: apt-get install nodejs npm), then repeat" >&2
    exit 1
}
# Packages come from the registry, once per lock file.
stamp=web/node_modules/.installed
if [ ! -e "$stamp" ] || ! cmp -s web/package-lock.json "$stamp"; then
    echo "web: installing packages" >&2
    npm ci --prefix web --no-fund --no-audit --loglevel=error >/dev/null
    cp web/package-lock.json "$stamp"
fi

cd web
# Built again only when something of it changed: cargo would build everything behind it again, too.
built=dist/.built-from
now=$(cat ../docs/openapi.json index.html package-lock.json vite.config.ts tsconfig.json scripts/compress.mjs \
    $(find src public -type f ! -name schema.d.ts | sort) | sha256sum)
if [ ! -e dist/index.html ] || [ "$(cat "$built" 2>/dev/null)" != "$now" ]; then
    npm run --silent build
    echo "$now" >"$built"
fi
[ "${1:-}" != build ] || exit 0

npm run --silent types >/dev/null
npm run --silent lint
echo "web: eslint found nothing"
npm run --silent check
echo "web: tsc found nothing"
npm run --silent test
# The code that the dashboard gives away is run as it is: Python needs the SDK's one dependency. The folder is that of
# scripts/sdks.sh, which adds its tools.
venv=../target/sdks/venv
if ! "$venv/bin/python" -c 'import anyio' 2>/dev/null; then
    echo "web: installing the Python SDK into target/sdks/venv" >&2
    mkdir -p ../target/sdks
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -e ../sdks/python
fi
../scripts/build-tests.sh
npm run --silent e2e
