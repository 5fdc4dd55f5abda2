#!/usr/bin/env bash
# Lints, type-checks and tests the SDKs against the real server. What they need is installed into target/sdks and
# sdks/typescript/node_modules, from versions that are pinned; says little when everything is there.
# DULY_BIN names another server than the one of the tests' profile.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

say() { printf 'sdks: %s\n' "$*" >&2; }

if [ -z "${DULY_BIN:-}" ]; then
    scripts/build-tests.sh
    export DULY_BIN="$root/target/debug/duly"
fi

venv="$root/target/sdks/venv"
stamp="$venv/.installed-$(cksum sdks/python/pyproject.toml | cut -d ' ' -f 1)"
if [ ! -e "$stamp" ]; then
    say "installing the Python SDK and its tools into target/sdks/venv"
    mkdir -p target/sdks
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -e "sdks/python[dev]"
    rm -f "$venv"/.installed-*
    touch "$stamp"
fi

ts="$root/sdks/typescript"
packages() { # a folder with a lock file, what is said
    local stamp
    stamp="$1/node_modules/.installed-$(cksum "$1/package-lock.json" | cut -d ' ' -f 1)"
    [ ! -e "$stamp" ] || return 0
    say "$2"
    (cd "$1" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error >/dev/null)
    rm -f "$1"/node_modules/.installed-*
    touch "$stamp"
}
packages "$ts" "installing the TypeScript SDK's tools"
packages "$ts/tests/prisma" "installing Prisma, for the test of the outbox"

# Both at once: they wait for the server more than they work. A part of the background ends at its first fault.
(
    cd sdks/python
    "$venv/bin/ruff" check --quiet .
    "$venv/bin/ruff" format --check --quiet .
    "$venv/bin/mypy" --cache-dir "$root/target/sdks/mypy" --no-error-summary
    echo "sdks: python: ruff and mypy are content"
    "$venv/bin/python" -m pytest -n 3 -o cache_dir="$root/target/sdks/pytest"
) >target/sdks/python.log 2>&1 &
python=$!
(
    cd "$ts"
    node node_modules/typescript/bin/tsc -p tsconfig.json
    node node_modules/typescript/bin/tsc -p tsconfig.build.json
    node node_modules/eslint/bin/eslint.js .
    echo "sdks: typescript: tsc and eslint are content"
    node --test --test-concurrency=3 --test-reporter=spec out/tests/*.test.js
) >target/sdks/typescript.log 2>&1 &
typescript=$!

code=0
wait "$python" || { code=1 && cat target/sdks/python.log; }
wait "$typescript" || { code=1 && cat target/sdks/typescript.log; }
sed -n '/^sdks: /p; s/^\([0-9]* passed\|[0-9]* failed\)/sdks: python: \1/p' target/sdks/python.log
sed -n '/^sdks: /p; s/^ℹ \(tests\|pass\|fail\) /sdks: typescript: \1 /p' target/sdks/typescript.log
[ "$code" = 0 ] || exit "$code"
# As users install them: what a package leaves out is not missed in the source tree.
scripts/sdks-packaged.sh
