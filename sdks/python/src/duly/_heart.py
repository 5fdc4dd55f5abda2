"""The heart thread: renews every lease that is held, until its settle was answered.

Leases (the rule that keeps two workers from running one run): the server takes a run back at 110 % of its lease after
the last heartbeat it heard. This side counts from the instant a request was *sent* that was answered, and from there
trusts 90 %. After that the lease is unknown; runs for which that matters are told to stop.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from ._clock import now
from ._state import BEAT_TIMEOUT, IDLE, ITEMS_MAX, State, log
from ._transport import may_pass
from .context import Held
from .errors import ApiError, DulyError, LeaseLost

Told = Callable[[DulyError | None], None]
"""Whoever waits for a checkpoint is told that it is durable, or why not."""


class Beats(State):
    def checkpoint(self, held: Held, text: str, told: Told) -> None:
        with self.lock:
            if held.stale or held.finished or self.closed:
                told(LeaseLost(f"{held.run_id} belongs to another"))
                return
            held.checkpoints.append((text, told))
            held.beat_at = 0.0
            self.beat_wanted.notify()

    def _beats(self) -> None:
        failures = 0
        while True:
            with self.lock:
                self._look(now())
                due = self._due(now())
                while not due and not self.closed:
                    self._wake_at = self._next_look()
                    self.beat_wanted.wait(max(0.0, min(IDLE, self._wake_at - now())))
                    self._wake_at = 0.0
                    self._look(now())
                    due = self._due(now())
                    if self._empty_beat_at <= now():
                        break
                if self.closed:
                    return
                self._empty_beat_at = now() + self.options.lease / 3 if self.quiet else float("inf")
            error = self._beat(due)
            failures = 0 if error is None else failures + 1
            if error is not None:
                with self.lock:
                    again = now() + min(self.options.lease / 10, self.transport.pause(error, failures))
                    for held, _, _ in due:
                        held.beat_at = max(held.beat_at, again)

    def _due(self, at: float) -> list[tuple[Held, str, list[Told]]]:
        """The runs to be renewed now, with what is said of them."""
        due = []
        for held in self.held.values():
            if held.beat_at > at or held.stale:
                continue
            extra = ""
            told: list[Told] = []
            if held.checkpoints:
                # The last one is what the next attempt shall know.
                extra = ',"checkpoint":' + held.checkpoints[-1][0]
                told = [callback for _, callback in held.checkpoints]
            if held.progress:
                extra += ',"progress":' + json.dumps(held.progress)
            due.append((held, extra, told))
            if len(due) == ITEMS_MAX:
                break
        return due

    def _next_look(self) -> float:
        following = self._empty_beat_at
        for held in self.held.values():
            if held.stale:
                continue
            following = min(following, held.beat_at)
            if held.reason is None and not held.finished:
                following = min(following, held.deadline_at)
                if not held.unknown:
                    following = min(following, held.trusted_until)
        return following

    def _look(self, at: float) -> None:
        """What time alone says: leases that are unknown by now, attempts whose time is over."""
        for held in list(self.held.values()):
            if held.stale or held.finished:
                continue
            if held.deadline_at <= at:
                self.tell(held, "deadline")
            if held.trusted_until <= at and not held.unknown:
                held.unknown = True
                if self._stops(held):
                    self.tell(held, "lease_lost")

    def _stops(self, held: Held) -> bool:
        choice = self.options.on_lease_unknown
        return choice == "stop" or (choice == "auto" and held.run.get("group") is not None)

    def _beat(self, due: list[tuple[Held, str, list[Told]]]) -> DulyError | None:
        items = ",".join(f'{{"run_id":"{held.run_id}","token":{held.token}{extra}}}' for held, extra, _ in due)
        about = f',"about":{json.dumps(self._about())}' if self._knows_about else ""
        body = f'{{"worker":{json.dumps(self.options.name)},"runs":[{items}]{about}}}'.encode()
        sent = now()
        with self.lock:
            trusts = [held.trusted_until - sent for held, _, _ in due if not held.unknown]
        timeout = max(0.05, min([BEAT_TIMEOUT, self.options.lease / 3, *trusts]))
        try:
            answer = self.transport.once("POST", "/v1/work/heartbeat", data=body, timeout=timeout)
        except DulyError as error:
            log.warning("a heartbeat was not answered: %s", error)
            if isinstance(error, ApiError) and error.status == 422 and self._knows_about:
                self._knows_about = False  # a server that does not register workers
            elif isinstance(error, ApiError) and not may_pass(error):
                for held, _, told in due:
                    self._checkpointed(held, told, error)
            return error
        for (held, _, told), result in zip(due, answer["results"], strict=True):
            self._answered(held, told, result["status"], sent)
        self.signal_of_beat(answer.get("signal", "none"))
        return None

    def signal_of_beat(self, signal: str) -> None:
        if signal == "terminate" or (signal == "quiet") != self.quiet:
            self.signal(signal)

    def _answered(self, held: Held, told: list[Told], status: str, sent: float) -> None:
        with self.lock:
            if status == "stale":
                held.stale = True
                self._checkpointed(held, told, LeaseLost(f"{held.run_id} belongs to another"))
                if not held.begun and not held.finished:
                    self._drop(held)
                    return
            else:
                waited = not held.begun and not held.finished
                held.renewed(sent)
                self._checkpointed(held, told, None)
                if waited and not self.draining:
                    self._begin([held])
        if status == "stale":
            self.tell(held, "lease_lost")
        elif status == "cancel":
            self.tell(held, "cancelled")

    def _checkpointed(self, held: Held, told: list[Told], error: DulyError | None) -> None:
        with self.lock:
            held.checkpoints = [entry for entry in held.checkpoints if entry[1] not in told]
        for callback in told:
            callback(error)
