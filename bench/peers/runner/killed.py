"""A worker is killed while it holds runs: how long until another has all of them?"""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from machine import Failed, end, spawn

LEASE_SECONDS = 5
# Asked: all run again within 1.1 leases and two seconds.
ASKED_SECONDS = 1.1 * LEASE_SECONDS + 2
PATIENCE_SECONDS = 60
QUEUE = "killed"


def ask_server(url: str, path: str, body: dict | None = None) -> dict:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url + path, data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


class Holder:
    """A driver that holds what it gets, and says which runs it started."""

    def __init__(self, driver: list[str], url: str, jobs: int, log: Path) -> None:
        ask = {"work": "hold", "jobs": jobs, "batch": 500, "store": url, "queue": QUEUE}
        command = [*driver, json.dumps(ask | {"lease": f"{LEASE_SECONDS}s"})]
        self.process = spawn(command, log, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.jobs, self.starts, self.all = jobs, {}, threading.Event()
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self) -> None:
        for line in self.process.stdout:
            number, at = line.split()
            self.starts.setdefault(int(number), int(at))
            if len(self.starts) == self.jobs:
                self.all.set()

    def has_all(self) -> None:
        if not self.all.wait(PATIENCE_SECONDS):
            raise Failed(f"{len(self.starts)} of {self.jobs} runs were started within {PATIENCE_SECONDS} s")


def killed_while_holding(driver: list[str], url: str, jobs: int, log: Path) -> dict:
    job = {"target": {"worker": {"kind": "bench"}}, "queue": QUEUE}
    made = ask_server(url, "/v1/jobs/batch", {"jobs": [job | {"payload": {"number": n}} for n in range(jobs)]})
    if any(one["status"] != 202 for one in made["results"]):
        raise Failed("a job was refused")
    first = Holder(driver, url, jobs, log)
    try:
        first.has_all()
        # Waits idle when the first is killed: what is measured is the server, not the start of a program.
        second = Holder(driver, url, jobs, log)
        try:
            waiting(url, second.process.pid)
            killed_us = time.time_ns() // 1_000
            os.killpg(first.process.pid, signal.SIGKILL)
            second.has_all()
            after = sorted((at - killed_us) / 1e6 for at in second.starts.values())
        finally:
            end(second.process, patience=0)
    finally:
        end(first.process, patience=0)
    return {"again": {"first": after[0], "last": after[-1]}, "tally": {}}


def waiting(url: str, pid: int) -> None:
    """Until the server has heard of two workers."""
    until = time.monotonic() + PATIENCE_SECONDS
    while len(ask_server(url, "/v1/workers")["items"]) < 2:
        if time.monotonic() > until:
            raise Failed(f"the server does not hear of the second worker ({pid})")
        time.sleep(0.02)
