#!/usr/bin/env python3
"""Workers that take from twelve queues at once, over the nodes of a cluster on this machine: four clients submit batches
to three queues each, four workers claim up to 250 runs of all queues at any node and settle them.

    bench/queues.py SECONDS JOBS_PER_SECOND PORT...      called by scripts/bench-postgres.sh queues

Prints how much of what was submitted was settled, how long claims and settles took, and the bytes that crossed loopback
per job, the database's included.
"""

import http.client
import json
import pathlib
import random
import sys
import threading
import time

QUEUES, CLIENTS, WORKERS, CLAIM, BATCH_MAX = 12, 4, 4, 250, 1_000
# What is left after the load is waited for so long.
PATIENCE = 40


class Load:
    def __init__(self, ports):
        self.ports, self.over, self.drained = ports, False, False
        self.made = self.done = 0
        self.took = {"submit": [], "claim": [], "settle": []}
        self.lock = threading.Lock()

    def ask(self, what, path, body, kind="application/json"):
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", random.choice(self.ports), timeout=30)
        connection.request("POST", path, body, {"Content-Type": kind})
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        if reply.status >= 300:
            raise SystemExit(f"{path} was answered with {reply.status}: {text[:300]!r}")
        return json.loads(text), (what, time.monotonic() - begun)

    def note(self, times, made=0, done=0):
        with self.lock:
            for what, seconds in times:
                self.took[what].append(seconds)
            self.made += made
            self.done += done

    def submit(self, rate):
        begun, sent = time.monotonic(), 0
        while not self.over:
            owed = int((time.monotonic() - begun) * rate) - sent
            if owed < 20:
                time.sleep(0.02)
                continue
            count, first = min(owed, BATCH_MAX), random.randrange(QUEUES)
            sent += count
            job = {"target": {"worker": {"kind": "k"}}}
            lines = (json.dumps({**job, "payload": at, "queue": f"b{(first + at % 3) % QUEUES}"}) for at in range(count))
            _, took = self.ask("submit", "/v1/jobs/batch", "\n".join(lines), "application/x-ndjson")
            self.note([took], made=count)

    def work(self, name):
        claim = {"worker": name, "queues": [f"b{at}" for at in range(QUEUES)], "max": CLAIM, "wait": "200ms", "lease": "5s"}
        number = 0
        while not self.drained:
            number += 1
            claimed, took = self.ask("claim", "/v1/work/claim", json.dumps({**claim, "request_id": f"{name}-{number}"}))
            runs = [{"run_id": run["run_id"], "token": run["token"], "outcome": "succeeded"} for run in claimed["runs"]]
            if runs:
                _, settled = self.ask("settle", "/v1/work/settle", json.dumps({"worker": name, "runs": runs}))
                self.note([took, settled], done=len(runs))


def loopback():
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.strip().startswith("lo:"))


def quantile(seconds, part):
    return sorted(seconds)[int(len(seconds) * part)] * 1000 if seconds else 0


def main():
    seconds, rate, *ports = (int(argument) for argument in sys.argv[1:])
    load, before, begun = Load(ports), loopback(), time.monotonic()
    clients = [threading.Thread(target=load.submit, args=(rate / CLIENTS,)) for _ in range(CLIENTS)]
    workers = [threading.Thread(target=load.work, args=(f"w{at}",)) for at in range(WORKERS)]
    for thread in clients + workers:
        thread.start()
    time.sleep(seconds)
    at_end = load.done
    load.over = True
    for thread in clients:
        thread.join()
    while load.done < load.made and time.monotonic() - begun < seconds + PATIENCE:
        time.sleep(0.1)
    took, load.drained = time.monotonic() - begun, True
    for thread in workers:
        thread.join()
    parts = (f"{what} p50 {quantile(all, 0.5):.0f}, p99 {quantile(all, 0.99):.0f} ms" for what, all in load.took.items())
    print(
        f"{load.made:,} submitted in {seconds} s, {at_end:,} settled by then, {load.done:,} after {took:.1f} s; "
        f"{'; '.join(parts)}; {(loopback() - before) / max(1, load.done):,.0f} bytes per job"
    )


main()
