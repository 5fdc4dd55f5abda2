#!/usr/bin/env bash
# Compares our calendar with three independent implementations on random schedules.
#
#     scripts/differential.sh [CASES=25000] [SEED]
#
# The seed is random and printed unless given, here or as DULY_SEED: the same seed gives the same
# cases. One summary line per peer; any difference that no written rule explains is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

cases="${1:-25000}"
seed="${2:-${DULY_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}}"
tools=target/tools
peers=tests/differential/peers

missing() {
    echo "differential: $1 is missing; run scripts/setup-tools.sh" >&2
    exit 1
}
python="$tools/venv/bin/python"
[ -x "$python" ] && "$python" -c 'import cronsim, tzdata' 2>/dev/null || missing cronsim
[ -d "$tools/node/node_modules/croner" ] || missing croner
command -v node >/dev/null || missing node
command -v systemd-analyze >/dev/null || missing systemd-analyze

echo "differential: $cases cases per peer; again with: scripts/differential.sh $cases $seed"
cargo build --quiet -p differential
generate="$(cargo metadata --format-version 1 --no-deps --offline |
    "$python" -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')/debug/differential"
# Node looks for packages from the script upwards, so the script stands beside them.
cp "$peers/croner_peer.mjs" "$tools/node/croner_peer.mjs"
croner_version="$(node -p "require('./$tools/node/node_modules/croner/package.json').version")"

failed=0
"$generate" cronsim "$cases" "$seed" | "$python" "$peers/cronsim_peer.py" || failed=1
"$generate" croner "$cases" "$seed" | node "$tools/node/croner_peer.mjs" |
    "$python" "$peers/croner_report.py" "$croner_version" || failed=1
"$generate" systemd "$cases" "$seed" | "$python" "$peers/systemd_peer.py" || failed=1
exit "$failed"
