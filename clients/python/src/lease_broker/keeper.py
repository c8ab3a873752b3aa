"""The keeper: sends heartbeats, and watches the times of leases and handlers.

It has its own thread and its own connection. Neither a handler nor a waiting claim delays a heartbeat. It never waits
for an answer: answers arrive in a thread of gRPC. It sends without the worker's lock, and asks for the token in
another thread if its function, or the read of its file, may not return.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import grpc

from lease_broker import v1
from lease_broker.calls import Caller, CallFailure, as_error, check_count, may_retry, note_failure, read_failure
from lease_broker.credentials import TokenError
from lease_broker.errors import LeaseBrokerError
from lease_broker.health import CallHealth
from lease_broker.leases import DONE, RUNNING, WAITING, HeldLease
from lease_broker.state import MAX_BYTES, MAX_ITEMS, State, beat_period
from lease_broker.transport import ClosedError, Transport
from lease_broker.values import duration_seconds

_LONGEST_SLEEP = 1.0
# Errors after which no call of this worker succeeds.
_REFUSES_CALLER = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


@dataclass(slots=True)
class Beat:
    """A heartbeat that is to be sent."""

    leases: list[HeldLease]
    checkpoints: list[bytes | None]
    request: v1.HeartbeatRequest
    timeout: float
    period: float


class Keeper:
    """Keeps the leases of a worker until it is closed."""

    def __init__(
        self,
        state: State,
        transport: Transport,
        caller: Caller,
        health: CallHealth,
        on_fatal: Callable[[LeaseBrokerError], None],
    ) -> None:
        self._state = state
        self._on_fatal = on_fatal
        self._transport = transport
        self._caller = caller
        self._closed = False
        self._health = health
        self._needs_fresh_token = False
        self._due: list[Beat] = []
        self._sender: threading.Thread | None = None
        """The thread that asks for the token, if that may block."""

    def close(self) -> None:
        """Makes `run` return. No further heartbeat is sent."""
        with self._state.lock:
            self._closed = True
            self._state.clock.notify()

    def run(self) -> None:
        """Sends heartbeats until `close`."""
        state = self._state
        while not self._closed:
            with state.lock:
                now = state.now()
                wake = min(self.look(now), now + _LONGEST_SLEEP)
                if not self._due and not self._closed:
                    state.clock.wait(max(wake - state.now(), 0.001))
            self.send()
            state.log_lost()
        state.log_lost()

    def look(self, now: float) -> float:
        """Acts on the times of leases and handlers. Prepares heartbeats for `send`. Returns when to look again.

        Is called with the worker's lock.
        """
        state = self._state
        wake = state.watch(now)
        if state.options.heartbeat and state.next_beat <= now:
            self._beat(now)
        return min(wake, state.next_beat) if state.options.heartbeat else wake

    def _beat(self, now: float) -> None:
        """Prepares heartbeats for all leases. Sets the time of the next ones."""
        leases = [lease for lease in self._state.held.values() if lease.wants_heartbeat]
        if not leases:
            self._state.next_beat = float("inf")
            return
        period = min(beat_period(lease) for lease in leases)
        timeout = min(lease.duration for lease in leases) / 3
        self._state.next_beat = now + period
        group: list[HeldLease] = []
        size = 0
        for lease in leases:
            size += len(lease.id) + len(lease.new_checkpoint or b"") + 16
            if group and (len(group) == MAX_ITEMS or size > MAX_BYTES):
                self._prepare(group, timeout, period)
                group, size = [], len(lease.id) + len(lease.new_checkpoint or b"") + 16
            group.append(lease)
        self._prepare(group, timeout, period)

    def _prepare(self, leases: list[HeldLease], timeout: float, period: float) -> None:
        # Without a duration the broker extends each lease by the duration of its claim.
        checkpoints = [self._state.sendable(lease.new_checkpoint) for lease in leases]
        request = v1.HeartbeatRequest(queue=self._state.options.queue)
        for lease, checkpoint in zip(leases, checkpoints, strict=True):
            request.renewals.add(lease_id=lease.id, checkpoint=checkpoint)
        self._due.append(Beat(leases, checkpoints, request, timeout, period))

    def send(self) -> None:
        """Sends the heartbeats that were prepared."""
        with self._state.lock:
            beats, self._due = self._due, []
        if not beats:
            return
        if not self._caller.token_may_block:
            self._send(beats)
        elif self._sender is None or not self._sender.is_alive():
            self._sender = threading.Thread(target=self._send, args=(beats,), name="lease-broker-beat", daemon=True)
            self._sender.start()
        else:
            text = "the token has not arrived since the last heartbeat"
            self._note_failure(CallFailure(grpc.StatusCode.UNAVAILABLE, None, text, None), beats[0].period)

    def _send(self, beats: list[Beat]) -> None:
        for beat in beats:
            self._send_one(beat)

    def _send_one(self, beat: Beat) -> None:
        period, is_fresh = beat.period, self._needs_fresh_token
        try:
            metadata = self._caller.metadata(is_fresh)
            broker = self._transport.route()
            sent_at = self._state.now()
            future = broker.start("Heartbeat", beat.request, beat.timeout, metadata)
        except (TokenError, OSError) as error:
            self._note_failure(CallFailure(grpc.StatusCode.UNAVAILABLE, None, str(error), None), period)
            return
        except (ClosedError, ValueError):
            # The connection or its channel was closed: the token has come after the stop.
            return

        def on_answer(answered: Any) -> None:
            try:
                answer = answered.result()
                check_count("Heartbeat", answer.results, beat.leases)
            except grpc.FutureCancelledError:
                return
            except LeaseBrokerError as error:
                self._note_failure(CallFailure(grpc.StatusCode.INTERNAL, None, error.message, None), period)
            except grpc.RpcError as error:
                failure = read_failure(error)
                failure = replace(failure, others_answer=note_failure(self._transport, broker, failure))
                self._note_failure(failure, period)
                if failure.code in _REFUSES_CALLER and not may_retry(failure):
                    # A new token may help, but only once.
                    if is_fresh or not self._caller.has_token:
                        self._on_fatal(as_error("Heartbeat", failure))
                    self._needs_fresh_token = True
            else:
                self._transport.note(broker, failed=False)
                refused = self._note(beat, sent_at, answer)
                if refused:
                    with self._state.lock:
                        self._prepare(refused, beat.timeout, period)
                        self._state.clock.notify()

        future.add_done_callback(on_answer)

    def _note(self, beat: Beat, sent_at: float, answer: v1.HeartbeatResponse) -> list[HeldLease]:
        """Notes the answer to a heartbeat. Returns the leases that it has not extended because of their checkpoints."""
        state = self._state
        refused: list[HeldLease] = []
        self._health.note(None)
        self._needs_fresh_token = False
        extended = 0
        with state.lock:
            for lease, checkpoint, result in zip(beat.leases, beat.checkpoints, answer.results, strict=True):
                if result.outcome == v1.OUTCOME_APPLIED:
                    extended += 1
                    lease.extend(sent_at, duration_seconds(result.time_left))
                    if lease.new_checkpoint is checkpoint:
                        lease.new_checkpoint = None
                elif result.outcome == v1.OUTCOME_REFUSED:
                    # The lease is still held.
                    if checkpoint is None or result.refusal.reason == v1.REFUSAL_REASON_LOCKED:
                        self._beat_soon(beat.period)
                    else:
                        state.refuse_checkpoint(lease, checkpoint, result.refusal.message)
                        if lease.wants_heartbeat:
                            refused.append(lease)
                elif lease.phase in (WAITING, RUNNING, DONE):
                    # A lease that is being settled may have ended by its settlement, whose answer tells.
                    state.lose(lease, result.cancel_reason or None)
            state.events.emit("heartbeat", count=extended)
        return refused

    def _note_failure(self, failure: CallFailure, period: float) -> None:
        """Sends the next heartbeat soon after one that failed."""
        state = self._state
        self._health.note(failure)
        with state.lock:
            self._beat_soon(period)
        state.options.logger.info("a heartbeat failed: %s: %s", failure.code.name, failure.message)

    def _beat_soon(self, period: float) -> None:
        """Sends the next heartbeat soon after one that failed or was refused. The caller has the lock."""
        state = self._state
        state.next_beat = min(state.next_beat, state.now() + period / 4)
        state.clock.notify()
