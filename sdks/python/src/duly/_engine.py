"""The protocol of a worker, in threads of its own: no handler can keep a heartbeat from being sent.

    claim thread ──► ready ──► handlers (threads, or the event loop) ──► ended ──► settle thread
                        │                                                   │
                    heart thread: renews every lease that is held, until its settle was answered

`_state.py` is what they share; each thread has a file of its own. Here is how they begin and end.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from ._claim import Claims
from ._heart import Beats
from ._settle import Settles
from ._state import log
from ._transport import encode
from .errors import DulyError


class Engine(Claims, Beats, Settles):
    def start(self) -> None:
        self.claiming = True
        for name, body in (("claim", self._claims), ("heart", self._beats), ("settle", self._settles)):
            thread = threading.Thread(target=self._guarded, args=(body,), name=f"duly-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except Exception:
            # Without one of its threads a worker must not go on: leases would end under running handlers.
            log.exception("the worker stops: a part of it failed")
            with self.lock:
                held = list(self.held.values())
                self.closed = True
            for one in held:
                self.tell(one, "lease_lost")
            self.drain()
            self.on_change()

    def close(self) -> None:
        """Ends the threads. What is still held is left to its lease."""
        with self.lock:
            self.closed = True
            self.draining = True
            for condition in (self.room, self.work, self.settle_wanted, self.beat_wanted):
                condition.notify_all()
        self._closing.set()
        self.interrupt.end()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def leave(self) -> None:
        """Says goodbye, so that nothing waits for this worker's leases. Servers that do not know it ignore it."""
        with contextlib.suppress(DulyError):
            self.transport.once("POST", "/v1/work/leave", data=encode({"worker": self.options.name}), timeout=2.0)
