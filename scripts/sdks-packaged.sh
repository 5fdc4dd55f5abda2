#!/usr/bin/env bash
# Installs each SDK the way its README says, into a folder that has nothing else, and runs the README's program there
# against the real server: a job through a worker. What the package leaves out is missed here, and only here; the other tests
# run in the source tree. scripts/sdks.sh calls this; DULY_BIN names the server.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
: "${DULY_BIN:=$root/target/debug/duly}"
place="$root/target/sdks/packaged"
rm -rf "$place"
mkdir -p "$place"

servers=()
trap 'for pid in "${servers[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT

# The longest that a server may take to be ready, and a program to be done.
patience=60

say() { printf 'sdks: packaged: %s\n' "$*"; }
fail() { say "$*" && exit 1; }

# The first program of a README: its language's folder, its fence, where to put it.
example() {
    awk -v fence="\`\`\`$2" '$0 == fence { inside = 1; next } inside && /^```$/ { exit } inside' "sdks/$1/README.md" >"$3"
    [ -s "$3" ] || fail "sdks/$1/README.md has no program behind \`\`\`$2"
}

# Runs a program against a server of its own; its last line is the output of the run that a worker did.
play() { # a language, its program
    local language=$1 said out="$place/$1.out" log="$place/$1.server"
    shift
    mkfifo "$log"
    "$DULY_BIN" serve --listen 127.0.0.1:0 --data "$place/$language.data" --log-level error >"$log" &
    local pid=$!
    servers+=("$pid")
    local address="" word rest
    exec 3<"$log"
    # Read until it is ready; whoever never is ends with the time.
    while read -r -t "$patience" word rest <&3; do
        [ "$word" != address ] || address=$rest
        [ "$word" != ready ] || break
    done
    [ "$word" = ready ] || fail "$language: the server did not become ready"
    (cd "$place/$language" && env -u DULY_API_KEY -u PYTHONPATH -u NODE_PATH DULY_URL="$address" timeout "$patience" "$@") >"$out" ||
        fail "$language: the program of its README failed"
    exec 3<&-
    kill -9 "$pid"
    wait "$pid" 2>/dev/null || true
    said=$(tail -n 1 "$out")
    # What Python prints of an object has the other quotes.
    [[ ${said//\'/\"} =~ \"?customer\"?:\ ?42 ]] || fail "$language: the worker's output is not there: $said"
    say "$language: installed, imported, one job through a worker"
}

if [ "${1:-all}" = python ] || [ "${1:-all}" = all ]; then
    mkdir "$place/python"
    python3 -m venv "$place/python/venv"
    "$place/python/venv/bin/pip" install --quiet --disable-pip-version-check ./sdks/python
    example python "python example" "$place/python/example.py"
    play python venv/bin/python example.py
    # Users' type checkers see its types.
    (cd "$place/python" && venv/bin/python -c 'import duly, pathlib; assert (pathlib.Path(duly.__file__).parent / "py.typed").is_file()') ||
        fail "python: py.typed is not in the package"
fi

if [ "${1:-all}" = typescript ] || [ "${1:-all}" = all ]; then
    # By the folder's name npm makes a link; with --install-links it takes what a registry would get.
    for how in link copy; do
        into="$place/typescript-$how"
        mkdir "$into"
        printf '{"name": "user", "private": true, "type": "module"}\n' >"$into/package.json"
        flags=()
        [ "$how" = link ] || flags=(--install-links)
        npm install --prefix "$into" --no-fund --no-audit --loglevel=error "${flags[@]}" ./sdks/typescript >/dev/null
        example typescript "js example" "$into/example.mjs"
        play "typescript-$how" node example.mjs
    done
    # Users' compilers see its types.
    printf 'import { Client } from "duly-client";\nexport const made: Promise<{ id: string }> = new Client().submit("k", {});\n' >"$into/types.ts"
    printf '{"compilerOptions": {"noEmit": true, "strict": true, "skipLibCheck": true, "module": "nodenext", "target": "es2022", "types": []}, "files": ["types.ts"]}\n' >"$into/tsconfig.json"
    node "$root/sdks/typescript/node_modules/typescript/bin/tsc" -p "$into" ||
        fail "typescript: its types are not in the package"
fi

if [ "${1:-all}" = rust ] || [ "${1:-all}" = all ]; then
    mkdir -p "$place/rust/src"
    # A workspace of its own, with the versions and the profile of ours, so that what is built already is used again.
    cat >"$place/rust/Cargo.toml" <<END
[package]
name = "user-of-duly-client"
version = "0.0.0"
edition = "2024"
[dependencies]
duly-client = { path = "$root/sdks/rust" }
serde = { version = "1", features = ["derive"] }
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
[workspace]
$(sed -n '/^\[profile.test\]/,$p' Cargo.toml)
END
    cp Cargo.lock "$place/rust/"
    example rust "rust,no_run" "$place/rust/src/main.rs"
    cargo build --quiet --profile test --manifest-path "$place/rust/Cargo.toml" --target-dir "$root/target"
    play rust "$root/target/debug/user-of-duly-client"
fi
