"""The settle thread: says how runs ended, many at once, until the server has answered."""

from __future__ import annotations

import json

from ._clock import now
from ._ended import Ended, failure
from ._state import IDLE, ITEMS_MAX, State, log
from ._transport import may_pass
from .errors import ApiError, DulyError

SETTLE_BYTES_MAX = 4 * 1024 * 1024
"""Outputs of one settle; the server reads 16 MiB at most."""
SETTLE_TRIES_FOR = 300.0
"""A settle that is not answered is repeated for so many seconds, with heartbeats going on; then the lease decides."""


class Settles(State):
    def _settles(self) -> None:
        while True:
            with self.lock:
                while not self.ended:
                    if self.closed:
                        return
                    self.settle_wanted.wait(IDLE)
                batch: list[Ended] = []
                size = 0
                while self.ended and len(batch) < ITEMS_MAX and size < SETTLE_BYTES_MAX:
                    size += len(self.ended[0].text)
                    batch.append(self.ended.popleft())
            self._settle(batch)
            self.on_change()

    def _settle(self, batch: list[Ended]) -> None:
        items = ",".join(
            f'{{"run_id":"{one.held.run_id}","token":{one.held.token},"outcome":"{one.outcome}"{one.text}}}'
            for one in batch
        )
        body = f'{{"worker":{json.dumps(self.options.name)},"runs":[{items}]}}'.encode()
        give_up, failures = now() + SETTLE_TRIES_FOR, 0
        while True:
            try:
                answer = self.transport.once("POST", "/v1/work/settle", data=body)
            except DulyError as error:
                if may_pass(error) and now() < give_up and not self.closed:
                    failures += 1
                    self._pause(self.transport.pause(error, failures))
                    continue
                self._unsettled(batch, error)
                return
            break
        with self.lock:
            for one, result in zip(batch, answer["results"], strict=True):
                self._count(one, result["status"])
                del self.held[(one.held.run_id, one.held.token)]
            self.room.notify()

    def _count(self, one: Ended, status: str) -> None:
        if status != "ok":
            self.stats.refused += 1
            log.warning("%s: its settle was refused; it belongs to another attempt by now", one.held.run_id)
            return
        setattr(self.stats, one.outcome, getattr(self.stats, one.outcome) + 1)

    def _unsettled(self, batch: list[Ended], error: DulyError) -> None:
        """A request that is refused whole: one of its runs is at fault. Each is said alone, then as a failure."""
        if isinstance(error, ApiError) and not may_pass(error):
            if len(batch) > 1:
                for one in batch:
                    self._settle([one])
                return
            if batch[0].outcome != "failed":
                self._settle([failure(batch[0].held, f"its end was refused: {error.detail}", retryable=False)])
                return
        log.error("%d ended runs could not be settled: %s", len(batch), error)
        with self.lock:
            for one in batch:
                self._drop(one.held)
