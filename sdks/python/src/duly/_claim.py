"""The claim thread: asks for as many runs as there is room for, and waits with the server until there are some."""

from __future__ import annotations

import contextlib
import uuid
from datetime import UTC, datetime
from typing import Any

from ._clock import now
from ._ended import span, until_deadline
from ._state import BEAT_TIMEOUT, IDLE, ITEMS_MAX, State, log
from ._transport import may_pass
from .context import Held
from .errors import ApiError, DulyError


class Claims(State):
    def _claims(self) -> None:
        options = self.options
        failures = 0
        request_id = uuid.uuid4().hex
        cut_off = False
        while True:
            with self.lock:
                while not self.draining and (self._room() < 1 or self.quiet):
                    self.room.wait(IDLE)
                if self.draining:
                    break
                most = min(self._room(), ITEMS_MAX)
            body: dict[str, Any] = {"worker": options.name, "queues": options.queues, "kinds": options.kinds}
            body |= {"max": most, "wait": span(options.wait), "lease": span(options.lease), "request_id": request_id}
            if self._knows_about:
                body["about"] = self._about()
            sent = now()
            try:
                answer = self._ask("claim", body, options.wait + BEAT_TIMEOUT, self.interrupt)
            except DulyError as error:
                if self.draining:
                    cut_off = True
                    break
                if isinstance(error, ApiError) and "about" in body and error.status == 422:
                    self._knows_about = False  # a server that does not register workers
                    continue
                if not may_pass(error):
                    log.error("claims are refused: %s", error)
                failures += 1
                # The same request again: if the server did answer, it answers with the same leases.
                self._pause(self.transport.pause(error, failures))
                continue
            failures = 0
            request_id = uuid.uuid4().hex
            self.take(answer["runs"], sent)
            self.signal(answer.get("signal", "none"))
        if cut_off:
            self._hand_back(request_id)
        with self.lock:
            self.claiming = False
        self.on_change()

    def _hand_back(self, request_id: str) -> None:
        """The last claim was cut off. If the server had answered it, those leases are ours and nobody runs them: the
        same request tells. What it brings is handed back."""
        options = self.options
        body = {"worker": options.name, "queues": options.queues, "kinds": options.kinds, "max": 1, "wait": "0s"}
        body |= {"lease": span(options.lease), "request_id": request_id}
        with contextlib.suppress(DulyError):
            sent = now()
            answer = self._ask("claim", body, 2.0, None)
            self.take(answer["runs"], sent)

    def take(self, runs: list[Any], sent: float) -> None:
        heard = now()
        wall = datetime.now(UTC)
        with self.lock:
            self.stats.claimed += len(runs)
            begun: list[Held] = []
            earliest = float("inf")
            for run in runs:
                held = Held(run, sent, self.options.lease)
                held.deadline_at = heard + until_deadline(run, self.options.lease, wall)
                self.held[(held.run_id, held.token)] = held
                if self.draining:
                    self.finish(held, "released", "", started=False)
                elif heard >= held.trusted_until:
                    # The answer lay about while this process stood still. A heartbeat tells whether it still holds.
                    held.beat_at = heard
                    held.unknown = True
                else:
                    begun.append(held)
                earliest = min(earliest, held.beat_at, held.deadline_at)
            self._begin(begun)
            if earliest < self._wake_at:
                self.beat_wanted.notify()
