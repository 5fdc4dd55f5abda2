#!/usr/bin/env python3
"""How near webhooks come to what this machine can do at all, on the embedded store, in turns:

    bench/webhooks.py [TURNS] [BEFORE]

A turn is the exchange alone (signed, sent and heard, without a store, a core or an API), no-op jobs alone, and webhooks, each
on a fresh store. A webhook is both, so the limit is both in turn on the same processors: 1 / (1/exchange + 1/noop). BEFORE is
another duly, whose webhooks take turns with ours.

Needs `cargo build --release -p duly` and `cargo build --release -p executor --example exchange` (DULY=... names another binary).
Prints Markdown: medians and the spread, and the processor time of each thread of the server for one webhook. Data lies in a folder of
its own that is removed afterwards; every run is bounded by the numbers below and by TIME_LIMIT.
"""

import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DULY = os.environ.get("DULY", str(ROOT / "target/release/duly"))
EXCHANGE = ROOT / "target/release/examples/exchange"
PORT = int(os.environ.get("PORT", "7182"))
URL = f"http://127.0.0.1:{PORT}"
TURNS_MAX = 50
TIME_LIMIT = 120
EXCHANGES, NOOPS, WEBHOOKS = 60_000, 60_000, 30_000


def is_ready():
    try:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False


def threads(process):
    """Microseconds on a processor so far, by the thread's name."""
    spent = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            spent[name] = spent.get(name, 0) + int((task / "schedstat").read_text().split()[0]) / 1_000
        except FileNotFoundError:
            pass
    return spent


def bench(duly, folder, work, jobs, *more):
    """Jobs per second, and microseconds of the server's threads for each job."""
    shutil.rmtree(folder, ignore_errors=True)
    args = [duly, "serve", "--data", str(folder), "--listen", f"127.0.0.1:{PORT}", "--allow-egress", "127.0.0.0/8"]
    with open(folder.parent / "log", "ab") as log:
        server = subprocess.Popen(args, stdout=log, stderr=log)
    try:
        begun = time.monotonic()
        while not is_ready():
            if time.monotonic() - begun > TIME_LIMIT or server.poll() is not None:
                raise SystemExit((folder.parent / "log").read_text()[-2_000:])
            time.sleep(0.02)
        before = threads(server)
        args = [DULY, "bench", work, "--jobs", str(jobs), "--url", URL, "--json", *more]
        done = subprocess.run(args, capture_output=True, text=True, timeout=TIME_LIMIT)
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        spent = {name: (after - before.get(name, 0)) / jobs for name, after in threads(server).items()}
        result = json.loads(done.stdout)[0]
        if result["tally"]["missing"] or result["tally"]["repeated"]:
            raise SystemExit(done.stdout)
        return result["per_second"], spent
    finally:
        server.terminate()
        server.wait(TIME_LIMIT)


def exchange():
    done = subprocess.run([EXCHANGE, str(EXCHANGES), "1"], capture_output=True, text=True, timeout=TIME_LIMIT, check=True)
    return float(done.stdout.split()[0])


def spread(values):
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main():
    turns = min(int(sys.argv[1]) if len(sys.argv) > 1 else 5, TURNS_MAX)
    duly = {"webhooks": DULY} | ({"before": sys.argv[2]} if len(sys.argv) > 2 else {})
    if not EXCHANGE.exists():
        raise SystemExit(f"{EXCHANGE} is missing: cargo build --release -p executor --example exchange")
    rates, costs = {}, {}
    with tempfile.TemporaryDirectory(prefix="duly-webhooks-") as place:
        folder = pathlib.Path(place) / "data"
        for _ in range(turns):
            rates.setdefault("exchange", []).append(exchange())
            rate, _ = bench(DULY, folder, "noop", NOOPS, "--connections", "8", "--batch", "250")
            rates.setdefault("no-op jobs", []).append(rate)
            for name, binary in duly.items():
                rate, spent = bench(binary, folder, "webhook", WEBHOOKS)
                rates.setdefault(name, []).append(rate)
                costs.setdefault(name, []).append(spent)
    limits = [1 / (1 / a + 1 / b) for a, b in zip(rates["exchange"], rates["no-op jobs"])]
    rates["limit"] = limits
    print(f"| work, {turns} turns | a second: median (spread) |\n|---|---|")
    for name, values in rates.items():
        print(f"| {name} | {spread(values)} |")
    for name in duly:
        parts = [100 * rate / limit for rate, limit in zip(rates[name], limits)]
        whole = 100 * statistics.median(rates[name]) / statistics.median(limits)
        print(f"\n{name}: {whole:.0f} % of the limit by the medians; in single turns {spread(parts)} %")
        each = {thread: statistics.median([spent.get(thread, 0) for spent in costs[name]]) for thread in costs[name][0]}
        shown = [f"{thread} {cost:.1f}" for thread, cost in sorted(each.items(), key=lambda one: -one[1]) if cost >= 0.5]
        print(f"{name}: {sum(each.values()):.0f} µs of processor time of the server each: {', '.join(shown)}")


main()
