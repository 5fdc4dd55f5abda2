"""No-op runs per second through one worker process: `python bench/throughput.py [--sync] [RUNS]` beside a server.

Jobs are submitted first, so that the worker alone is measured: from its first claim to its last settle's answer.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid

import duly

BATCH = 5_000


def main() -> None:
    numbers = [int(one) for one in sys.argv[1:] if one.isdigit()]
    total = numbers[0] if numbers else 30_000
    sync = "--sync" in sys.argv
    queue = f"bench-{uuid.uuid4().hex[:8]}"
    client = duly.Client()
    for start in range(0, total, BATCH):
        count = min(BATCH, total - start)
        job: duly.types.JobRequest = {"target": {"worker": {"kind": "noop"}}, "queue": queue}
        results = client.create_many([job] * count)
        assert all(one["status"] == 202 for one in results)
    worker = duly.Worker(queues=[queue], concurrency=64 if sync else 500, prefetch=2_000, lease="60s")
    seen: set[str] = set()
    if sync:

        @worker.handler("noop")
        def noop(payload: object, ctx: duly.Context) -> None:
            seen.add(ctx.run_id)
    else:

        @worker.handler("noop")
        async def noop_async(payload: object, ctx: duly.AsyncContext) -> None:
            seen.add(ctx.run_id)

    def watch() -> None:
        deadline = time.monotonic() + 120
        while worker.stats.succeeded < total and time.monotonic() < deadline:
            time.sleep(0.005)
        took.append(time.perf_counter() - begun)
        worker.stop()

    took: list[float] = []
    begun = time.perf_counter()
    threading.Thread(target=watch, daemon=True).start()
    stats = worker.run()
    assert stats.succeeded == total == len(seen), stats
    times = os.times()
    kind = "sync" if sync else "async"
    print(f"python {kind}: {total} runs in {took[0]:.2f} s: {total / took[0]:.0f} runs/s ({times.user:.1f} s of CPU)")


if __name__ == "__main__":
    main()
