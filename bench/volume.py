#!/usr/bin/env python3
"""Large numbers of everything, on the embedded store, over HTTP on loopback. One part at a time:

    bench/volume.py recurring [JOBS]   registered recurring jobs (5,000,000): registering them, a start, memory, an idle minute
    bench/volume.py future [JOBS]      future one-off jobs (50,000,000): submission and punctuality as they gather, bytes each
    bench/volume.py backlog [RUNS]     ready runs that nobody takes (5,000,000): memory, and what a claim costs
    bench/volume.py stampede [JOBS]    recurring webhooks due in one second (100,000), beside another namespace's trickle

Needs `cargo build --release -p duly` (DULY=... names another binary). Prints Markdown; data lies in a folder of its
own that is removed afterwards. Every loop is bounded by the numbers above and by TIME_LIMIT.
"""

import http.client
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DULY = os.environ.get("DULY", str(ROOT / "target/release/duly"))
PORT = int(os.environ.get("PORT", "7181"))
URL = f"http://127.0.0.1:{PORT}"
TIME_LIMIT = 3_600
MIB = 1 << 20
IDLE_SECONDS = 30


class Server:
    def __init__(self, folder):
        self.folder, self.process = folder, None

    def start(self):
        """Seconds until it is ready."""
        begun = time.monotonic()
        log = open(self.folder.parent / "log", "ab")
        args = [DULY, "serve", "--data", str(self.folder), "--listen", f"127.0.0.1:{PORT}"]
        self.process = subprocess.Popen(args, stdout=log, stderr=log)
        while time.monotonic() - begun < 120:
            try:
                if self.get("/readyz")[0] == 200:
                    return time.monotonic() - begun
            except OSError:
                pass
            time.sleep(0.01)
        raise SystemExit((self.folder.parent / "log").read_text()[-2000:])

    def stop(self, how=signal.SIGTERM):
        if self.process:
            self.process.send_signal(how)
            self.process.wait(120)
            self.process = None

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        connection.request("GET", path)
        reply = connection.getresponse()
        answer = reply.status, reply.read()
        connection.close()
        return answer

    def anonymous(self):
        """Memory that is not a file's, in MiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return int(line.split()[1]) / 1024

    def seconds(self):
        """Processor time so far."""
        parts = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def bytes(self):
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())

    def unfired(self):
        """Recurring jobs that have not fired yet, by the file itself."""
        file = sqlite3.connect(f"file:{self.folder}/duly.db?mode=ro", uri=True)
        count = file.execute("SELECT count(*) FROM jobs WHERE fired = 0").fetchone()[0]
        file.close()
        return count

    def idle(self):
        """Percent of a core while nobody asks anything."""
        time.sleep(3)
        before = self.seconds()
        time.sleep(IDLE_SECONDS)
        return (self.seconds() - before) * 100 / IDLE_SECONDS

    def bench(self, work, jobs, *more):
        return finish(begin(work, jobs, *more))


def begin(work, jobs, *more):
    args = [DULY, "bench", work, "--jobs", str(jobs), "--url", URL, "--json", "--time-limit", str(TIME_LIMIT)]
    return subprocess.Popen([*args, *more], stdout=subprocess.PIPE, text=True)


def finish(process):
    text, _ = process.communicate(timeout=TIME_LIMIT)
    if process.returncode != 0:
        raise SystemExit(f"duly bench failed: {text}")
    return json.loads(text)[0]


def lateness(row):
    return f"p50 {row['millis']['p50']:.1f} ms, p99 {row['millis']['p99']:.1f} ms, most {row['millis']['max']:.1f} ms"


def say(*words):
    print(*words, flush=True)


def recurring(server, jobs):
    for count in (1_000, jobs):
        shutil.rmtree(server.folder, ignore_errors=True)
        server.start()
        row = server.bench("recurring", count, "--connections", "4")
        size = server.bytes()
        server.stop(signal.SIGKILL)
        ready = [server.start()]
        memory, idle = server.anonymous(), server.idle()
        for _ in range(2):
            server.stop(signal.SIGKILL)
            ready.append(server.start())
        spread = server.bench("spread", 10_000, "--connections", "4")
        times = ", ".join(f"{seconds:.2f}" for seconds in ready)
        say(
            f"| {count:,} | {row['seconds']:.0f} s, {row['per_second']:,.0f}/s | {times} s | {memory:.0f} MiB "
            f"| {idle:.2f} % of a core | {lateness(spread)} | {size / count:,.0f} bytes |"
        )
        server.stop()


def future(server, jobs):
    step, stored = min(jobs, 10_000_000), 0
    server.start()
    while True:
        spread = [server.bench("spread", 10_000, "--connections", "4") for _ in range(3)]
        middle = sorted(spread, key=lambda row: row["millis"]["p99"])[1]
        size = server.bytes()
        each = size / stored if stored else 0
        more = server.bench("submit", 200_000, "--connections", "4")
        stored += 200_000
        say(
            f"| {stored - 200_000:,} | {more['per_second']:,.0f}/s | {lateness(middle)} | {size / 1e9:.2f} GB, {each:,.0f} each "
            f"| {server.anonymous():.0f} MiB |"
        )
        if stored >= jobs:
            break
        row = server.bench("submit", min(step, jobs - stored), "--connections", "4")
        stored += row["jobs"]
        say(f"|   |   |   | {row['jobs']:,} more at {row['per_second']:,.0f}/s | |")
    server.stop(signal.SIGKILL)
    say(f"start after kill -9 with all of them: {server.start():.2f} s")


def claims(queue, rounds):
    """Milliseconds of each claim of 500 runs; they are settled in between."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)

    def ask(path, body):
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return json.loads(reply.read())

    took = []
    for number in range(rounds):
        begun = time.monotonic()
        name = f"{queue}-{number}"
        claimed = ask("/v1/work/claim", {"worker": "volume", "queues": [queue], "max": 500, "wait": "0s", "request_id": name})
        took.append((time.monotonic() - begun) * 1000)
        runs = [{"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"} for run in claimed["runs"]]
        if len(runs) != 500:
            raise SystemExit(f"{len(runs)} runs and not 500")
        ask("/v1/work/settle", {"worker": "volume", "runs": runs})
    return took


def backlog(server, runs):
    for count in (1_000, runs):
        shutil.rmtree(server.folder, ignore_errors=True)
        server.start()
        took, work = [], 0.0
        rounds = 40 if count > 50_000 else 1
        row = server.bench("fill", count, "--connections", "4", "--queue", "backlog")
        memory = server.anonymous()
        # A small backlog is filled again for each round of claims, so that both are asked as often.
        for again in range(40 // rounds):
            before = server.seconds()
            took += claims("backlog", rounds)
            work += server.seconds() - before
            if rounds == 1:
                server.bench("fill", 500, "--queue", "backlog")
        say(
            f"| {count:,} | {row['per_second']:,.0f}/s | {memory:.0f} MiB | {statistics.median(took):.1f} ms "
            f"({min(took):.1f} to {max(took):.1f}) | {work / len(took) / 500 * 1e6:.0f} µs |"
        )
        server.stop()


def stampede(server, jobs):
    server.start()
    # The other namespace's jobs are due from a little before the instant until well after it.
    main = begin("stampede", jobs, "--connections", "4", "--queue", "stampede")
    lead = 3 + jobs * 200e-6
    instant = time.time() + lead
    beside = []
    fired = None
    while main.poll() is None:
        if len(beside) < 2 and time.time() > instant - 4 + 13 * len(beside):
            beside.append(begin("spread-webhook", 500, "--namespace", "trickle"))
        if fired is None and time.time() > instant:
            if server.unfired() == 0:
                fired = time.time() - instant
        time.sleep(0.25)
    row, others = finish(main), [lateness(finish(process)) for process in beside]
    say(f"| {row['jobs']:,} | within {fired:.1f} s | {lateness(row)} | {row['tally']} | {'; '.join(others)} |")
    server.stop()


HEADS = {
    "recurring": ["registered", "registering", "ready after a start", "anonymous memory", "idle", "10,000 others over 10 s", "on disk each"],
    "future": ["stored", "200,000 more", "10,000 others over 10 s, median of 3", "on disk", "anonymous memory"],
    "backlog": ["ready", "submitted", "anonymous memory", "a claim of 500, median", "server's processor time per run, claim and settle"],
    "stampede": ["due in one second", "fired", "delivered late by", "counted", "the other namespace's, 50 a second"],
}
SIZES = {"recurring": 5_000_000, "future": 50_000_000, "backlog": 5_000_000, "stampede": 100_000}


def main():
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if part not in SIZES:
        raise SystemExit(__doc__)
    count = int(sys.argv[2].replace(",", "")) if len(sys.argv) > 2 else SIZES[part]
    (ROOT / "target").mkdir(exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="volume-", dir=ROOT / "target"))
    server = Server(folder / "data")
    heads = HEADS[part]
    say("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    try:
        globals()[part](server, count)
        say(f"\nload average at the end: {os.getloadavg()[0]:.1f}")
    finally:
        server.stop(signal.SIGKILL)
        shutil.rmtree(folder)


main()
