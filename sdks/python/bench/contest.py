"""This SDK's worker as a driver of bench/peers: asked by one JSON argument, answers with one line of JSON.

`threads` before the argument takes handlers in threads, `async` handlers on the event loop. Each handler notes that it
started. The work `hold` prints a line for each start and holds its runs until the process is ended.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import duly

SPREAD_US = 10_000_000
LOOK = 0.002
"""Seconds between two looks at the worker's counters."""


def wall() -> int:
    return time.time_ns() // 1_000


class Driver:
    def __init__(self, ask: dict[str, Any], *, threads: bool) -> None:
        self.ask = ask
        self.queue = ask.get("queue") or f"bench-{uuid.uuid4().hex[:8]}"
        self.client = duly.Client(ask["store"])
        self.starts: list[tuple[int, int]] = []
        holds = ask["work"] == "hold"
        concurrency = ask["jobs"] if holds else 64 if threads else 500
        self.worker = duly.Worker(
            ask["store"],
            queues=[self.queue],
            concurrency=concurrency,
            prefetch=0 if holds else 2_000,
            lease=ask.get("lease", "60s"),
        )
        if holds:
            self.worker.handler("bench")(self.hold)
        elif threads:
            self.worker.handler("bench")(self.note)
        else:
            self.worker.handler("bench")(self.note_async)

    def note(self, payload: Any, ctx: duly.Context) -> None:
        self.starts.append((payload["number"], wall()))

    async def note_async(self, payload: Any, ctx: duly.AsyncContext) -> None:
        self.starts.append((payload["number"], wall()))

    def hold(self, payload: Any, ctx: duly.Context) -> None:
        os.write(1, f"{payload['number']} {wall()}\n".encode())
        threading.Event().wait()

    def due(self) -> dict[str, int] | None:
        if self.ask["work"] != "spread":
            return None
        first = (wall() + self.ask["lead_us"]) // 1_000 * 1_000
        return {"first_us": first, "step_us": max(SPREAD_US // self.ask["jobs"], 1_000) // 1_000 * 1_000}

    def submit(self, due: dict[str, int] | None) -> None:
        pad = "x" * max(0, self.ask["payload_bytes"] - 32)
        for first in range(0, self.ask["jobs"], self.ask["batch"]):
            jobs: list[duly.types.JobRequest] = []
            for number in range(first, min(self.ask["jobs"], first + self.ask["batch"])):
                payload = {"number": number, "pad": pad}
                job: duly.types.JobRequest = {
                    "target": {"worker": {"kind": "bench"}},
                    "queue": self.queue,
                    "payload": payload,
                }
                if due:
                    at = datetime.fromtimestamp((due["first_us"] + due["step_us"] * number) / 1e6, UTC)
                    job["schedule"] = {"at": at.isoformat(timespec="milliseconds")}
                jobs.append(job)
            for one in self.client.create_many(jobs):
                if one["status"] != 202:
                    raise RuntimeError(f"a job was refused: {one}")

    def settled(self) -> None:
        """Waits until every run has ended by the server's word."""
        until = time.monotonic() + self.ask["time_limit_s"]
        while self.worker.stats.succeeded < self.ask["jobs"]:
            if time.monotonic() > until:
                raise RuntimeError(f"not all ended in time: {self.worker.stats}")
            time.sleep(LOOK)

    def answer(self) -> None:
        if self.ask["work"] == "drain":
            due = None
            begun = submitted = wall()
        else:
            time.sleep(1)  # idle before the first job comes
            begun, due = wall(), self.due()
            self.submit(due)
            submitted = wall()
        self.settled()
        ended = wall()
        with open(self.ask["records"], "wb") as records:
            records.writelines(struct.pack("<qq", *start) for start in self.starts)
        print(json.dumps({"begun_us": begun, "submitted_us": submitted, "ended_us": ended, "due": due}), flush=True)

    def drive(self) -> None:
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self.answer()
            except BaseException as error:
                failed.append(error)
            self.worker.stop()

        if self.ask["work"] == "drain":
            self.submit(None)
        if self.ask["work"] != "hold":
            threading.Thread(target=work, daemon=True).start()
        self.worker.run()
        if failed:
            raise failed[0]


if __name__ == "__main__":
    Driver(json.loads(sys.argv[2]), threads=sys.argv[1] == "threads").drive()
