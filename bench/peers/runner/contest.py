"""Who is measured with what: the works, the peers, and the settings each peer's documentation advises
for speed. What is behind each setting is in bench/peers/README.md."""

from dataclasses import dataclass, replace

PAYLOAD_BYTES = 200
WORKS = ["submit", "noop", "drain", "webhook", "spread", "burst"]
LATENESS = {"spread", "burst"}
DUE = 10_000


@dataclass(frozen=True)
class Peer:
    name: str
    # What it keeps its jobs in: sqlite, postgres, everysec or always (the two ways Redis flushes).
    store: str
    # The command after the one that runs it, or None for duly itself.
    driver: list[str] | None
    # Jobs of each work, so that a repetition takes three to eight seconds.
    jobs: dict[str, int]
    # Jobs of one call of a bulk submission; its API may know one at a time only.
    batch: int = 1_000
    # How often an idle worker asks its database, if it does: while throughput is measured, and while lateness is.
    poll_ms: int = 0
    poll_due_ms: int = 0
    # What a submission of jobs for later is sure to reach, so that all are there before the first is due.
    submits_at_least: int = 5_000
    # Where its version is found: a package of npm, PyPI or a crate.
    package: tuple[str, str] | None = None
    keeps: str = ""
    # Its driver speaks to `duly serve`: a worker of one of the SDKs.
    sdk: bool = False
    # What the project asks of it, in no-op runs per second.
    asked: int = 0
    # Works for which it is set up as we would, beyond what its documentation advises.
    ours: frozenset[str] = frozenset()

    def count(self, work: str, scale: float) -> int:
        return max(100, int(self.jobs[work] * scale))

    def lead_us(self, jobs: int) -> int:
        return 3_000_000 + jobs * 1_000_000 // self.submits_at_least


def jobs(submit: int, noop: int, drain: int, webhook: int, due: int = DUE) -> dict[str, int]:
    return dict(submit=submit, noop=noop, drain=drain, webhook=webhook, spread=due, burst=due)


NODE = "target/peers/node"
RUST = "target/peers/rust/release"
PYTHON = ["target/peers/python/bin/python", "bench/peers/python/celery_driver.py"]


def node(script: str) -> list[str]:
    return [f"{NODE}/node_modules/.bin/node", f"{NODE}/{script}"]


PEERS = [
    Peer(
        "duly, embedded", "sqlite", None, jobs(150_000, 80_000, 80_000, 30_000), batch=500,
        keeps="history of every attempt; leases with fencing; synced before every answer",
    ),
    Peer(
        "duly, PostgreSQL", "postgres", None, jobs(100_000, 50_000, 50_000, 30_000), batch=500,
        keeps="the same",
    ),
    Peer(
        "graphile-worker", "postgres", node("graphile-worker.mjs"), jobs(120_000, 50_000, 60_000, 20_000),
        poll_ms=2_000, poll_due_ms=100, package=("npm", "graphile-worker"),
        keeps="nothing: a done job is deleted; a crash locks its jobs for 4 h",
    ),
    Peer(
        "graphile_worker (crate)", "postgres", [f"{RUST}/graphile_worker"], jobs(80_000, 60_000, 80_000, 20_000),
        poll_ms=1_000, poll_due_ms=100, package=("crate", "graphile_worker"),
        keeps="nothing: a done job is deleted",
    ),
    Peer(
        "pg-boss, work()", "postgres", [*node("pg-boss.mjs"), "work"], jobs(80_000, 20_000, 20_000, 12_000),
        package=("npm", "pg-boss"),
        keeps="done rows, one per job",
    ),
    Peer(
        "pg-boss, own loop", "postgres", [*node("pg-boss.mjs"), "loop"], jobs(80_000, 30_000, 30_000, 15_000),
        poll_ms=10, poll_due_ms=10, package=("npm", "pg-boss"),
        keeps="done rows, one per job", ours=frozenset(LATENESS),
    ),
    Peer(
        "apalis-postgres", "postgres", [f"{RUST}/apalis"], jobs(100_000, 30_000, 40_000, 15_000),
        poll_ms=10, poll_due_ms=10, package=("crate", "apalis-postgres"),
        keeps="done rows, one per job; due times in whole seconds",
    ),
    Peer(
        "BullMQ, everysec", "everysec", node("bullmq.mjs"), jobs(50_000, 20_000, 30_000, 12_000),
        package=("npm", "bullmq"),
        keeps="nothing; a power cut loses about the last second",
    ),
    Peer(
        "BullMQ, always", "always", node("bullmq.mjs"), jobs(40_000, 15_000, 20_000, 10_000),
        package=("npm", "bullmq"),
        keeps="nothing",
    ),
    Peer(
        "Celery, everysec", "everysec", PYTHON, jobs(4_000, 2_000, 2_000, 2_000),
        batch=1, submits_at_least=800, package=("pypi", "celery"),
        keeps="nothing; a crash loses running jobs, a power cut about the last second",
    ),
]


def hurried(name: str) -> Peer:
    """The same peer, asking its database a hundred times a second for what has become due."""
    peer = next(peer for peer in PEERS if peer.name == name)
    works = {work: peer.jobs[work] for work in LATENESS}
    return replace(peer, name=f"{name}, every 10 ms", poll_due_ms=10, jobs=works, ours=frozenset(LATENESS))


PEERS += [hurried("graphile-worker"), hurried("graphile_worker (crate)")]


def sdk(name: str, driver: list[str], asked: int, drain: int) -> Peer:
    # A worker that waits is what lateness is measured with here: one job in ten milliseconds.
    return Peer(
        name, "sqlite", driver, dict(noop=drain // 2, drain=drain, spread=1_000), batch=500, sdk=True, asked=asked,
        keeps="history of every attempt; leases with fencing; synced before every answer",
    )


def beside(name: str) -> Peer:
    """The same peer, with as many jobs for lateness as the workers of the SDKs."""
    peer = next(peer for peer in PEERS if peer.name == name)
    return replace(peer, jobs=peer.jobs | dict(spread=1_000))


PYTHON_SDK = ["target/sdks/venv/bin/python", "sdks/python/bench/contest.py"]

# `bench/workers.sh`: one worker process of each SDK, beside those of BullMQ and Celery.
WORKERS = [
    sdk("duly, Rust SDK", ["target/release/examples/contest"], 20_000, 100_000),
    sdk("duly, Python SDK, threads", [*PYTHON_SDK, "threads"], 3_000, 60_000),
    sdk("duly, Python SDK, asyncio", [*PYTHON_SDK, "async"], 3_000, 40_000),
    sdk("duly, TypeScript SDK", ["node", "sdks/typescript/out/bench/contest.js"], 5_000, 60_000),
    beside("BullMQ, everysec"),
    beside("BullMQ, always"),
    beside("Celery, everysec"),
]
WORKS_OF_WORKERS = ["drain", "noop", "spread", "killed"]
