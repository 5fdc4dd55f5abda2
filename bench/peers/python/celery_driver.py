"""Celery on Redis: a prefork worker with two processes and a producer that reuses one connection.

Asked by one JSON argument, answers with one JSON line, as all drivers do."""

import datetime
import json
import os
import subprocess
import sys
import time

ask = json.loads(sys.argv[1])
os.environ["PEERS_ASK"] = sys.argv[1]

from jobs import app, run  # noqa: E402  (it reads what it is asked from the environment)

DAY_US = 86_400_000_000
SPREAD_US = 10_000_000
LOOK = 0.002
PAD = "x" * max(0, ask["payload_bytes"] - 32)


def now():
    return time.time_ns() // 1000


def due():
    first = (now() + ask["lead_us"]) // 1000 * 1000
    match ask["work"]:
        case "submit":
            return {"first_us": now() + DAY_US, "step_us": 0}
        case "burst":
            return {"first_us": first, "step_us": 0}
        case "spread":
            return {"first_us": first, "step_us": max(SPREAD_US // ask["jobs"], 1000) // 1000 * 1000}
    return None


def submit(when):
    with app.producer_pool.acquire(block=True) as producer:
        for number in range(ask["jobs"]):
            eta = None
            if when:
                at = when["first_us"] + when["step_us"] * number
                eta = datetime.datetime.fromtimestamp(at / 1e6, datetime.timezone.utc)
            run.apply_async((number, PAD), eta=eta, producer=producer)


def start():
    command = [sys.executable, "-m", "celery", "-A", "jobs", "worker", "--pool", "prefork", "--concurrency", "2"]
    command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    here = os.path.dirname(os.path.abspath(__file__))
    # In our process group: the runner ends all of it.
    return subprocess.Popen(command, cwd=here, stdout=sys.stderr, stderr=sys.stderr)


def ready(worker):
    """Waits until the worker answers."""
    until = time.monotonic() + 30
    while not app.control.ping(timeout=0.2):
        if worker.poll() is not None or time.monotonic() > until:
            sys.exit("the worker does not start")


def started():
    return os.stat(ask["records"]).st_size // 16


def all_acknowledged(redis):
    until = time.monotonic() + ask["time_limit_s"]
    while started() < ask["jobs"] and time.monotonic() < until:
        time.sleep(LOOK)
    # What waits, and what was delivered and not acknowledged.
    while redis.llen("celery") + redis.hlen("unacked") > 0:
        if time.monotonic() > until + ask["time_limit_s"]:
            sys.exit("jobs that started are not acknowledged in time")
        time.sleep(LOOK)


def main():
    import redis

    store = redis.Redis.from_url(ask["store"])
    open(ask["records"], "wb").close()
    if ask["work"] == "submit":
        begun = now()
        submit(due())
        print(json.dumps({"begun_us": begun, "ended_us": now(), "stored": store.llen("celery")}))
        return
    when = None
    if ask["work"] == "drain":
        submit(None)
        begun = submitted = now()
        worker = start()
        all_acknowledged(store)
        ended = now()
    else:
        worker = start()
        ready(worker)
        time.sleep(1)
        begun, when = now(), due()
        submit(when)
        submitted = now()
        all_acknowledged(store)
        ended = now()
    worker.terminate()
    worker.wait(timeout=20)
    print(json.dumps({"begun_us": begun, "submitted_us": submitted, "ended_us": ended, "due": when}))


main()
