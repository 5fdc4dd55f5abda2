"""The workers of the SDKs beside those of BullMQ and Celery: one table."""

from contest import WORKERS
from killed import ASKED_SECONDS, LEASE_SECONDS
from report import cell, table
from stats import spread

KILLED_RUNS = 1_000


def column(rows: list[dict], peer: str, work: str, value) -> str:
    return cell(spread([value(row) for row in rows if row["peer"] == peer and row["work"] == work]))


def markdown(result: dict) -> str:
    about, rows = result["about"], result["rows"]
    head = ["worker", "empties a full queue, runs/s", "asked", "with a producer, runs/s", "due to handler, p50 ms", "p99 ms", "killed, s"]
    lines = []
    for peer in WORKERS:
        lines.append([
            peer.name,
            column(rows, peer.name, "drain", lambda row: row["per_second"]),
            f"{peer.asked:,}" if peer.asked else "",
            column(rows, peer.name, "noop", lambda row: row["per_second"]),
            column(rows, peer.name, "spread", lambda row: row["millis"]["p50"]),
            column(rows, peer.name, "spread", lambda row: row["millis"]["p99"]),
            column(rows, peer.name, "killed", lambda row: row["again"]["last"]) if peer.sdk else "",
        ])
    failures = "".join(f"- {one['peer']}, {one['work']}, {one['repetition']}: {one['why']}\n" for one in result["failures"])
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if name in SHOWN)
    return f"""{table(head, lines)}
`{about["command"]}`, {about["date"]}: one worker process each, {about["repetitions"]} rounds interleaved, median [least–most].
{about["machine"]}; load before {about["load_before"]}, after {about["load_after"]}. {versions}.

- *Empties a full queue*: all submitted first; from the first handler's start until the last end is acknowledged.
- *With a producer*: the same process submits while it works.
- *Due to handler*: {WORKERS[0].jobs["spread"]:,} jobs, one due in each 10 ms, submitted before; the worker is idle. Asked of the SDKs: p99 of
  10 ms.
- *Killed*: kill -9 of a worker that holds {KILLED_RUNS:,} runs under leases of {LEASE_SECONDS} s, until another of the same SDK has started the
  last of them again. Asked: {ASKED_SECONDS:g} s (1.1 leases and 2 s).
- duly syncs before it answers and keeps a row of history for each attempt; BullMQ and Celery keep nothing as they are set
  up, and with `everysec` a power cut loses about a second ([how each is set up](../peers/README.md)).
{"Did not come about:" + chr(10) + failures if failures else ""}"""


SHOWN = {"duly", "Redis", "Node", "Python", "bullmq", "celery"}
