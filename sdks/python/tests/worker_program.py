"""A worker in a process of its own, for tests that send signals. Says what it does, one JSON document per line.

Handlers of `hold` wait until the file of the payload exists and then succeed, whatever they are told; those of `polite`
stop when they are told to; `noop` returns at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import duly


def say(**event: Any) -> None:
    # One write per line: handlers speak from many threads.
    os.write(1, (json.dumps(event) + "\n").encode())


class Gate:
    """Open when a file exists. One thread looks for it, however many wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = threading.Event()
        self._watched = False

    def pass_through(self, file: str) -> None:
        with self._lock:
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, args=(file,), daemon=True).start()
        self._open.wait()

    def _watch(self, file: str) -> None:
        while not os.path.exists(file):
            time.sleep(0.02)
        self._open.set()


def main() -> None:
    options = json.loads(sys.argv[1])
    worker = duly.Worker(**options)
    gate = Gate()

    @worker.handler("hold")
    def hold(payload: Any, ctx: duly.Context) -> str:
        say(event="started", run=ctx.run_id, token=ctx.token)
        gate.pass_through(payload)
        say(event="ended", run=ctx.run_id)
        return worker.name

    @worker.handler("polite")
    def polite(payload: Any, ctx: duly.Context) -> str:
        say(event="started", run=ctx.run_id, token=ctx.token)
        while not os.path.exists(payload):
            if ctx.stop.wait(0.02):
                say(event="stopped", run=ctx.run_id, reason=ctx.stop_reason)
                ctx.check()
        return worker.name

    @worker.handler("noop")
    async def noop(payload: Any, ctx: duly.AsyncContext) -> str:
        return worker.name

    say(event="up")
    say(event="gone", **vars(worker.run()))


if __name__ == "__main__":
    main()
