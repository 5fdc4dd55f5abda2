"""Runs the works on duly and its peers, interleaved, and writes what came of it.

    python3 bench/peers/runner [--scale 0.05] [--repetitions 3] [--peers NAME,…] [--works WORK,…]

`--contest workers` is `bench/workers.sh`: the workers of the SDKs beside those of BullMQ and Celery.
`make bench-peers` installs and builds first. A run at full scale with three repetitions is recorded in
bench/results/peers.md and peers.json, any other in target/peers/results."""

import argparse
import contextlib
import datetime
import json
import os
import platform
import shutil
import signal
import sys
import time

import report_workers
from contest import PEERS, WORKERS, WORKS, WORKS_OF_WORKERS, Peer
from machine import ROOT, RUN, Failed, Postgres, clear, script
from measure import DULY, measure
from report import markdown

REPETITIONS = 3
# With the builds before it, within the forty minutes that `make bench-peers` may take.
MINUTES = 33


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__.split("\n\n")[0])
    env = os.environ.get
    parser.add_argument("--scale", type=float, default=float(env("PEERS_SCALE", "1")))
    parser.add_argument("--repetitions", type=int, default=int(env("PEERS_REPETITIONS", str(REPETITIONS))))
    parser.add_argument("--peers", default=env("PEERS_ONLY", ""), help="parts of names, with semicolons")
    parser.add_argument("--works", default=env("PEERS_WORKS", ""))
    parser.add_argument("--contest", choices=["peers", "workers"], default="peers")
    parser.add_argument("--minutes", type=float, default=float(env("PEERS_MINUTES", str(MINUTES))))
    args = parser.parse_args()
    args.all, works = (WORKERS, WORKS_OF_WORKERS) if args.contest == "workers" else (PEERS, WORKS)
    args.works = args.works.split(",") if args.works else works
    if unknown := set(args.works) - set(works):
        parser.error(f"--works: no such work {', '.join(sorted(unknown))}; there are {', '.join(works)}")
    if not 0 < args.scale <= 10:
        parser.error("--scale: more than 0, at most 10")
    if not 1 <= args.repetitions <= 20:
        parser.error("--repetitions: 1 to 20")
    parts = [part for part in args.peers.split(";") if part]
    args.peers = [peer for peer in args.all if not parts or any(part in peer.name for part in parts)]
    if not args.peers:
        parser.error(f"--peers: none matches; there are {'; '.join(peer.name for peer in args.all)}")
    return args


def takes(peer: Peer, work: str) -> bool:
    return peer.sdk if work == "killed" else work in peer.jobs


def order(peers: list[Peer], repetition: int) -> list[Peer]:
    """Another one begins each time, so that nobody always follows the same neighbour's mess."""
    turn = repetition * len(peers) // REPETITIONS % len(peers)
    return peers[turn:] + peers[:turn]


def run(args: argparse.Namespace, rows: list[dict], failures: list[dict]) -> None:
    until = time.monotonic() + args.minutes * 60
    with Postgres() if args.contest == "peers" else contextlib.nullcontext() as postgres:
        for repetition in range(args.repetitions):
            for work in args.works:
                for peer in order([peer for peer in args.peers if takes(peer, work)], repetition):
                    where = {"peer": peer.name, "work": work, "repetition": repetition + 1}
                    if time.monotonic() > until:
                        failures.append(where | {"why": f"the {args.minutes:g} minutes were over"})
                        continue
                    begun = time.monotonic()
                    try:
                        jobs = report_workers.KILLED_RUNS if work == "killed" else peer.count(work, args.scale)
                        row = measure(peer, work, jobs, postgres) | where
                        rows.append(row)
                        told = told_of(row)
                    except Failed as failed:
                        failures.append(where | {"why": str(failed)})
                        told = f"FAILED: {failed}"
                    took = time.monotonic() - begun
                    print(f"{repetition + 1} {work:8} {peer.name:24} {told}  ({took:.1f} s)", flush=True)


def told_of(row: dict) -> str:
    if again := row.get("again"):
        return f"{row['jobs']:,} runs again after {again['first']:.2f} to {again['last']:.2f} s"
    if millis := row.get("millis"):
        return f"p50 {millis['p50']:.1f} p99 {millis['p99']:.1f} max {millis['max']:.1f} ms, {row['jobs']:,} jobs"
    return f"{row['per_second']:,.0f}/s, {row['jobs']:,} jobs in {row['seconds']:.2f} s"


def versions(peers: list[Peer]) -> dict[str, str]:
    found = {"duly": script(DULY, "--version").split()[-1]}
    found["PostgreSQL"] = script("psql", "--version").split()[2]
    found["Redis"] = script("redis-server", "--version").split()[2].removeprefix("v=")
    found["Node"] = script("target/peers/node/node_modules/.bin/node", "--version").removeprefix("v")
    found["Python"] = platform.python_version()
    for peer in peers:
        if peer.package:
            found[peer.package[1]] = version_of(*peer.package)
    return found


def version_of(registry: str, name: str) -> str:
    if registry == "npm":
        return json.loads((ROOT / f"target/peers/node/node_modules/{name}/package.json").read_text())["version"]
    if registry == "pypi":
        lines = (ROOT / "bench/peers/python/requirements.txt").read_text().splitlines()
        return next(line.split("==")[1] for line in lines if line.startswith(f"{name}=="))
    lock = (ROOT / "bench/peers/rust/Cargo.lock").read_text()
    return lock.split(f'name = "{name}"\nversion = "')[1].split('"')[0]


def machine() -> str:
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GiB, Linux {platform.release()}"


def stop(*_) -> None:
    sys.exit("bench-peers: told to stop")


def main() -> None:
    args = arguments()
    signal.signal(signal.SIGTERM, stop)
    clear()
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "load_before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "versions": versions(args.all),
        "scale": args.scale,
        "repetitions": args.repetitions,
        "command": "make bench-peers",
    }
    rows, failures = [], []
    begun = time.monotonic()
    run(args, rows, failures)
    about["seconds"] = round(time.monotonic() - begun)
    about["load_after"] = " ".join(f"{load:.2f}" for load in os.getloadavg())
    result = {"about": about, "rows": rows, "failures": failures}
    if args.contest == "workers":
        workers(result)
        leave(failures)
    whole = args.scale == 1 and args.repetitions >= REPETITIONS and args.peers == PEERS and args.works == WORKS
    folder = ROOT / ("bench/results" if whole else "target/peers/results")
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown(result)
    (folder / "peers.md").write_text(text)
    (folder / "peers.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{text}\nwritten: {(folder / 'peers.md').relative_to(ROOT)} and peers.json")
    leave(failures)


def workers(result: dict) -> None:
    """Printed, and kept in target/peers/results; what is kept for good is put into bench/results/workers.md by hand."""
    result["about"]["command"] = "bench/workers.sh"
    folder = ROOT / "target/peers/results"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workers.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report_workers.markdown(result)
    (folder / "workers.md").write_text(text)
    print(f"\n{text}\nwritten: target/peers/results/workers.md and workers.json")


def leave(failures: list[dict]) -> None:
    shutil.rmtree(RUN, ignore_errors=True)
    sys.exit(f"bench-peers: {len(failures)} measurements did not come about" if failures else 0)


main()
