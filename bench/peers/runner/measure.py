"""One measurement: a peer, a work, an empty store."""

import json
import os
import re
from pathlib import Path

from contest import LATENESS, PAYLOAD_BYTES, Peer
from killed import killed_while_holding
from machine import RUN, Failed, Postgres, Receiver, Server, Store, finish
from stats import lateness, read_records, tally, trouble

# Another build, if it is named.
DULY = os.environ.get("DULY_BIN", "target/release/duly")
# How many submit and how many work, where it is not the usual two of each, and how many jobs a producer sends at once. A no-op
# costs its producer one request and its worker two: with batches half as large neither runs away from the other. For
# an instant as many wait as can take all of it, 500 each.
HANDS = {
    "noop": ["--connections", "8", "--batch", "250"],
    "drain": ["--connections", "8", "--batch", "500"],
    "burst": ["--connections", "20", "--batch", "500"],
    "spread": ["--connections", "4", "--batch", "500"],
}
# How long a driver waits for its last job after the last submission, and how long it may take in all.
LAST_JOB_SECONDS = 40
DRIVER_SECONDS = 75


def measure(peer: Peer, work: str, jobs: int, postgres: Postgres) -> dict:
    name = re.sub(r"\W+", "-", peer.name)
    log = RUN / f"{name}-{work}.err"
    with Store(peer.store, postgres) as store:
        if work == "killed":
            return {"peer": peer.name, "work": work, "jobs": jobs, **killed(peer, jobs, store, log)}
        if peer.sdk:
            of = of_sdk
        else:
            of = of_duly if peer.driver is None else of_peer
        row = of(peer, work, jobs, store, log)
    row.update(peer=peer.name, work=work, jobs=jobs)
    if "seconds" in row:
        row["per_second"] = jobs / row["seconds"]
    if why := trouble(row):
        raise Failed(why)
    return row


def of_duly(peer: Peer, work: str, jobs: int, store: Store, log: Path) -> dict:
    with Server(DULY, store, log) as server:
        command = [DULY, "bench", work, "--jobs", str(jobs), "--json"]
        command += HANDS.get(work, ["--batch", str(peer.batch)])
        command += ["--payload-bytes", str(PAYLOAD_BYTES), "--url", server.url]
        command += ["--time-limit", str(DRIVER_SECONDS - 10)]
        said = answer(finish(command, log, DRIVER_SECONDS))[0]
    row = {"tally": said["tally"]}
    if work in LATENESS:
        row["millis"] = said["millis"]
    else:
        row["seconds"] = said["seconds"]
    return row


def killed(peer: Peer, jobs: int, store: Store, log: Path) -> dict:
    with Server(DULY, store, log) as server:
        return killed_while_holding(peer.driver, server.url, jobs, log)


def of_sdk(peer: Peer, work: str, jobs: int, store: Store, log: Path) -> dict:
    with Server(DULY, store, log) as server:
        return of_peer(peer, work, jobs, store, log, server.url)


def of_peer(peer: Peer, work: str, jobs: int, store: Store, log: Path, url: str | None = None) -> dict:
    ask = {
        "work": work,
        "jobs": jobs,
        "batch": peer.batch,
        "store": url or store.url,
        "receiver": None,
        "lead_us": peer.lead_us(jobs),
        "poll_ms": peer.poll_due_ms if work in LATENESS else peer.poll_ms,
        "payload_bytes": PAYLOAD_BYTES,
        "records": str(store.folder / "records"),
        "time_limit_s": LAST_JOB_SECONDS,
    }
    if work != "webhook":
        said = answer(finish([*peer.driver, json.dumps(ask)], log, DRIVER_SECONDS))
        if work == "submit":
            return submission(jobs, said)
        return row_of(work, jobs, said, read_records((store.folder / "records").read_bytes()))
    with Receiver(jobs, DRIVER_SECONDS, log) as receiver:
        ask["receiver"] = receiver.url
        said = answer(finish([*peer.driver, json.dumps(ask)], log, DRIVER_SECONDS))
        seen = answer(receiver.seen(10))
    # Over when the last one has arrived, as for duly.
    return {"seconds": (seen["ended_us"] - said["begun_us"]) / 1e6, "tally": seen["tally"]}


def answer(text: str):
    try:
        return json.loads(text)
    except ValueError:
        raise Failed(f"no JSON was answered: {text[:200]!r}") from None


def submission(jobs: int, said: dict) -> dict:
    """The row of a submission: nothing ran, so the store is asked how many jobs it has."""
    counts = {"missing": max(0, jobs - said["stored"]), "repeated": max(0, said["stored"] - jobs)}
    return {"seconds": (said["ended_us"] - said["begun_us"]) / 1e6, "tally": counts | {"early": 0, "strange": 0}}


def row_of(work: str, jobs: int, said: dict, records: list[tuple[int, int]]) -> dict:
    """The row of a work that its driver's records tell of."""
    due = said["due"]
    row = {"tally": tally(records, jobs, due)}
    if work in LATENESS:
        row["millis"] = lateness(records, due)
        row["submitted_after_due"] = said["submitted_us"] > due["first_us"]
    else:
        # A worker's start is not a queue's emptying: that begins with the first job.
        begun = min((at for _, at in records), default=said["begun_us"]) if work == "drain" else said["begun_us"]
        row["seconds"] = (said["ended_us"] - begun) / 1e6
    return row
