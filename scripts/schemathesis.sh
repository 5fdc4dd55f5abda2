#!/usr/bin/env bash
# Sends generated requests, good and bad, to the real server, by the OpenAPI document it serves: no
# answer may be a 5xx, and each must be as the document says. scripts/schemathesis.sh [EXAMPLES] [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."
examples=${1:-25}
seed=${2:-$RANDOM}
tool=target/tools/schemathesis/bin/schemathesis
if [ ! -x "$tool" ]; then
    echo "schemathesis: missing; run scripts/setup-tools.sh" >&2
    exit 1
fi
scripts/build-tests.sh
folder=$(mktemp -d)
# Generated requests make keys too, and with the first one every request needs one.
key=$(target/debug/duly key create --scope admin --data "$folder/data" | head -n 1)
target/debug/duly serve --listen 127.0.0.1:0 --data "$folder/data" --log-level error \
    >"$folder/out" 2>"$folder/err" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 200); do
    grep -q '^ready$' "$folder/out" && break
    kill -0 "$server"
    sleep 0.1
done
address=$(sed -n 's/^ *address  //p' "$folder/out")
echo "schemathesis: seed $seed, $examples examples per operation against $address"
code=0
# Streams of events have no end, so they have their own tests.
SCHEMATHESIS_HOOKS=tests/schemathesis/hooks.py "$tool" \
    run "$address/openapi.json" --header "Authorization: Bearer $key" --exclude-path /v1/events --phases coverage,fuzzing \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --max-examples "$examples" --seed "$seed" --workers 2 --request-timeout 10 \
    --suppress-health-check all --warnings off --no-color >"$folder/report" 2>&1 || code=$?
if ! kill -0 "$server" 2>/dev/null; then
    echo "schemathesis: THE SERVER DIED" >&2
    cat "$folder/err" >&2
    code=1
fi
[ "$code" -eq 0 ] || cat "$folder/report" "$folder/err" >&2
grep -E '^ +[0-9]+ generated' "$folder/report" | sed 's/^ */schemathesis: /' || code=1
exit "$code"
