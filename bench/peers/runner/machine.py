"""Processes: every server and driver is started here, in a process group of its own, and ended here by
its number. Nothing outlives the run."""

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "target/peers/run"
START_SECONDS = 30
SCRIPT_SECONDS = 120
# For both PostgreSQL stores, duly's and the peers': scripts/postgres.sh has the sizes of a test.
POSTGRES_CONF = "shared_buffers = 1GB\nmax_wal_size = 8GB\n"


class Failed(Exception):
    """A measurement that did not come about, with the reason."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def script(*words: str) -> str:
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=SCRIPT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(words[:2])}: not done after {SCRIPT_SECONDS} s") from None
    if done.returncode:
        raise Failed(f"{' '.join(words[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def spawn(command: list[str], log: Path, **more) -> subprocess.Popen:
    with log.open("ab") as errors:
        return subprocess.Popen(
            command, cwd=ROOT, stderr=errors, start_new_session=True, text=True, **more
        )


def end(process: subprocess.Popen, patience: float = 10) -> None:
    """Asks the process to end, then ends its whole group."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def finish(command: list[str], log: Path, seconds: float) -> str:
    """Runs a driver to its end and returns what it printed."""
    process = spawn(command, log, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done after {seconds:.0f} s") from None
    finally:
        end(process, patience=0)
    if process.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise Failed(f"ended with {process.returncode}: {' '.join(last)[:300]}")
    return output


def clear() -> None:
    """An empty folder for the run; what a run that was killed left behind is stopped first."""
    if (RUN / "postgres/data").exists():
        script("scripts/postgres.sh", "stop", str(RUN / "postgres"))
    if (RUN / "store/pid").exists():
        script("scripts/redis.sh", "stop", str(RUN / "store"))
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)


class Postgres:
    """One server for the whole run; every measurement has a database of its own."""

    def __init__(self) -> None:
        self.folder = RUN / "postgres"
        self.port = free_port()
        self.made = 0

    def __enter__(self) -> "Postgres":
        command = ["scripts/postgres.sh", "start", str(self.folder), str(self.port)]
        script(*command)
        with (self.folder / "data/postgresql.conf").open("a") as conf:
            conf.write(POSTGRES_CONF)
        script("scripts/postgres.sh", "stop", str(self.folder))
        script(*command)
        return self

    def __exit__(self, *_) -> None:
        script("scripts/postgres.sh", "stop", str(self.folder))

    def sql(self, text: str) -> str:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        return script("psql", *where, "-X", "-A", "-t", "-q", "-c", text)

    def make(self) -> tuple[str, str]:
        self.made += 1
        name = f"peers{self.made}"
        self.sql(f"CREATE DATABASE {name}")
        # What the one before left to write is not this one's.
        self.sql("CHECKPOINT")
        return name, f"postgres://postgres@127.0.0.1:{self.port}/{name}"

    def drop(self, name: str) -> None:
        self.sql(f"DROP DATABASE {name} WITH (FORCE)")


class Store:
    """What one measurement keeps its jobs in: empty at its start, gone at its end."""

    def __init__(self, kind: str, postgres: Postgres) -> None:
        self.kind, self.postgres, self.folder = kind, postgres, RUN / "store"

    def __enter__(self) -> "Store":
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if self.kind == "postgres":
            self.name, self.url = self.postgres.make()
        elif self.kind == "sqlite":
            self.url = "sqlite"
        else:
            self.url = script("scripts/redis.sh", "start", str(self.folder), str(free_port()), self.kind)
        return self

    def __exit__(self, *_) -> None:
        if self.kind == "postgres":
            self.postgres.drop(self.name)
        elif self.kind != "sqlite":
            script("scripts/redis.sh", "stop", str(self.folder))
        shutil.rmtree(self.folder, ignore_errors=True)


class Server:
    """`duly serve` on a store."""

    def __init__(self, duly: str, store: Store, log: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        command = [duly, "serve", "--data", str(store.folder / "duly"), "--store", store.url]
        command += ["--listen", self.url.removeprefix("http://"), "--log-level", "warn"]
        command += ["--allow-egress", "127.0.0.0/8"]
        self.process = spawn(command, log, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def __enter__(self) -> "Server":
        until = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                end(self.process)
                raise Failed("duly serve is not ready in time")
            time.sleep(0.02)
        return self

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def __exit__(self, *_) -> None:
        end(self.process)


class Receiver:
    """The receiver of webhooks, for a peer."""

    def __init__(self, jobs: int, seconds: int, log: Path) -> None:
        command = ["target/peers/rust/release/receiver", str(jobs), str(seconds)]
        self.process = spawn(command, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> "Receiver":
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            end(self.process)
            raise Failed("the receiver does not start")
        return self

    def seen(self, seconds: float) -> str:
        try:
            output, _ = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failed("the receiver does not end") from None
        return output

    def __exit__(self, *_) -> None:
        end(self.process, patience=0)
