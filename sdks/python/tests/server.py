"""The real server for the tests, and a proxy in front of it that loses answers when it is told to."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
BINARY = Path(os.environ.get("DULY_BIN", REPOSITORY / "target" / "debug" / "duly"))


@contextlib.contextmanager
def serving(*args: str) -> Iterator[str]:
    """`duly serve` on a port of its own, with data of its own. Yields its URL."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [BINARY, "serve", "--listen", "127.0.0.1:0", "--data", f"{folder}/data", "--log-level", "error", *args],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield _address(process)
        finally:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    address = ""
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if len(words) == 2 and words[0] == "address":
            address = words[1]
        if line.strip() == "ready":
            return address
    raise AssertionError("the server did not become ready")


class Postgres:
    """A PostgreSQL of its own in this folder, while it is entered."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def _run(self, verb: str, *args: str) -> str:
        script = REPOSITORY / "scripts" / "postgres.sh"
        ran = subprocess.run([script, verb, self._folder, *args], check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def __enter__(self) -> str:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        return self._run("start", str(port))

    def __exit__(self, *_: object) -> None:
        self._run("stop")


def installed(address: str) -> None:
    """Makes the outbox in this database."""
    subprocess.run([BINARY, "outbox", "install", "--database", address], check=True, capture_output=True)


class Proxy:
    """Passes bytes. `lose` cuts connections instead of passing an answer on; `cut` refuses everything."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._lost: dict[str, int] = {}
        self._cut = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, path: str, answers: int) -> None:
        with self._lock:
            self._lost[path] = answers

    def cut(self, on: bool) -> None:
        with self._lock:
            self._cut = on
            if on:
                for sock in self._open:
                    _shut(sock)

    def close(self) -> None:
        self._listener.close()
        self.cut(True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._cut:
                    client.close()
                    continue
                server = socket.create_connection(self._upstream)
                self._open |= {client, server}
            doomed = threading.Event()
            threading.Thread(target=self._requests, args=(client, server, doomed), daemon=True).start()
            threading.Thread(target=self._answers, args=(server, client, doomed), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := client.recv(65536):
                words = chunk[:200].split(b" ")
                if words[0] in (b"POST", b"PUT", b"GET") and self._is_lost(words[1].decode()):
                    doomed.set()
                server.sendall(chunk)
        self._end(client, server)

    def _answers(self, server: socket.socket, client: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := server.recv(65536):
                if doomed.is_set():
                    break
                client.sendall(chunk)
        self._end(client, server)

    def _is_lost(self, path: str) -> bool:
        with self._lock:
            left = self._lost.get(path, 0)
            self._lost[path] = max(0, left - 1)
            return left > 0

    def _end(self, *socks: socket.socket) -> None:
        with self._lock:
            for sock in socks:
                self._open.discard(sock)
                _shut(sock)
                sock.close()


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
