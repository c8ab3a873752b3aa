"""The keeper: sends heartbeats, and watches the times of leases and handlers.

It has its own thread and its own connection. Neither a handler nor a waiting claim delays a heartbeat. It never waits
for an answer: answers arrive in a thread of gRPC.
"""

from __future__ import annotations

import sys
import time
import traceback
from typing import Any

import grpc

from lease_broker import endings, v1
from lease_broker.calls import Caller, CallFailure, check_count, read_failure
from lease_broker.credentials import TokenError
from lease_broker.errors import LeaseBrokerError
from lease_broker.health import CallHealth
from lease_broker.leases import HeldLease, Phase, Run
from lease_broker.runners import Runner
from lease_broker.state import State, beat_period
from lease_broker.transport import Transport
from lease_broker.values import duration_seconds

_MAX_RENEWALS = 1_000
# Seconds after which the item of a handler that was cancelled for its time limit is failed.
_TIME_LIMIT_GRACE = 5.0
_LONGEST_SLEEP = 1.0


class Keeper:
    """Keeps the leases of a worker until it is closed."""

    def __init__(self, state: State, transport: Transport, caller: Caller, runner: Runner, health: CallHealth) -> None:
        self._state = state
        self._transport = transport
        self._caller = caller
        self._runner = runner
        self._closed = False
        self._health = health
        self._needs_fresh_token = False

    def close(self) -> None:
        """Makes `run` return. No further heartbeat is sent."""
        with self._state.lock:
            self._closed = True
            self._state.clock.notify()

    def run(self) -> None:
        """Sends heartbeats until `close`."""
        state = self._state
        with state.lock:
            while not self._closed:
                now = time.monotonic()
                wake = now + _LONGEST_SLEEP
                for lease in list(state.held.values()):
                    wake = min(wake, self._watch_lease(lease, now))
                for run in list(state.runs):
                    wake = min(wake, self._watch_run(run, now))
                if state.options.heartbeat:
                    if state.next_beat <= now:
                        self._beat(now)
                    wake = min(wake, state.next_beat)
                state.clock.wait(max(wake - time.monotonic(), 0.001))

    def _watch_lease(self, lease: HeldLease, now: float) -> float:
        """Acts on the times of a lease. Returns the moment to look again."""
        state = self._state
        if not lease.wants_heartbeat or lease.phase is Phase.RESENDING:
            return float("inf")
        lost_at = lease.lost_at
        if now >= lost_at:
            state.lose(lease, "no heartbeat was answered in time" if state.options.heartbeat else "the lease has ended")
            return float("inf")
        doubt_at = lease.last_answer + lease.duration / 2
        if now < doubt_at:
            return min(doubt_at, lost_at)
        if lease.phase is Phase.WAITING:
            state.settle(endings.released(lease))
            return float("inf")
        if lease.run is not None and not state.options.heartbeat:
            if lease.phase is Phase.RUNNING:
                state.cancel(lease.run, "time_limit")
        elif lease.run is not None and not lease.in_doubt:
            lease.in_doubt = lease.run.context.in_doubt = True
            state.events.emit("heartbeat_missed", lease.item)
        return lost_at

    def _watch_run(self, run: Run, now: float) -> float:
        """Acts on the times of a handler. Returns the moment to look again."""
        state, options, context = self._state, self._state.options, run.context
        if all(lease.phase is Phase.WAITING for lease in run.leases):
            return float("inf")
        wake = float("inf")
        if context.cause is None and options.time_limit is not None:
            limit_at = context.started_at + options.time_limit
            if now < limit_at:
                return limit_at
            state.cancel(run, "time_limit")
        if context.cause == "time_limit" and options.heartbeat:
            fail_at = context.cancelled_at + _TIME_LIMIT_GRACE
            if now < fail_at:
                wake = fail_at
            else:
                for lease in run.leases:
                    state.settle(endings.failed(lease, endings.time_limit_text(options.time_limit)))
        stuck_at = context.cancelled_at + options.stuck_after
        if run.is_stuck or now < stuck_at:
            return wake if run.is_stuck else min(wake, stuck_at)
        self._give_up(run)
        return float("inf")

    def _give_up(self, run: Run) -> None:
        """Drops the leases of a handler that does not stop, and makes room for another handler."""
        state = self._state
        run.is_stuck = True
        state.stuck += 1
        for lease in run.leases:
            if lease.phase in (Phase.WAITING, Phase.RUNNING):
                state.drop(lease)
            state.events.emit("stuck", lease.item, cause=run.context.cause, stack=stacks())
        if state.stuck <= state.options.allowed_stuck:
            run.slot_replaced = True
            self._runner.replace_slot()
            state.return_slots(1)

    def _beat(self, now: float) -> None:
        """Sends heartbeats for all leases. Sets the time of the next ones."""
        leases = [lease for lease in self._state.held.values() if lease.wants_heartbeat]
        if not leases:
            self._state.next_beat = float("inf")
            return
        period = min(beat_period(lease) for lease in leases)
        timeout = min(lease.duration for lease in leases) / 3
        self._state.next_beat = now + period
        for first in range(0, len(leases), _MAX_RENEWALS):
            self._send(leases[first : first + _MAX_RENEWALS], timeout, period)

    def _send(self, leases: list[HeldLease], timeout: float, period: float) -> None:
        options = self._state.options
        # Without a duration the broker extends each lease by the duration of its claim.
        checkpoints = [lease.new_checkpoint for lease in leases]
        renewals = [
            v1.Renewal(lease_id=lease.id, checkpoint=checkpoint)
            for lease, checkpoint in zip(leases, checkpoints, strict=True)
        ]
        request = v1.HeartbeatRequest(queue=options.queue, renewals=renewals)
        sent_at = time.monotonic()
        try:
            metadata = self._caller.metadata(self._needs_fresh_token)
            future = self._transport.start("Heartbeat", request, timeout, metadata)
        except TokenError as error:
            self._note_failure(CallFailure(grpc.StatusCode.UNAVAILABLE, None, str(error), None), period)
            return
        except ValueError:
            # The channel was closed. The worker has stopped.
            return

        def on_answer(answered: Any) -> None:
            try:
                answer = answered.result()
                check_count("Heartbeat", answer.results, leases)
            except grpc.FutureCancelledError:
                return
            except LeaseBrokerError as error:
                self._note_failure(CallFailure(grpc.StatusCode.INTERNAL, None, error.message, None), period)
            except grpc.RpcError as error:
                self._note_failure(read_failure(error), period)
            else:
                refused = self._note(leases, checkpoints, sent_at, answer)
                if refused:
                    with self._state.lock:
                        self._send(refused, timeout, period)

        future.add_done_callback(on_answer)

    def _note(
        self, leases: list[HeldLease], checkpoints: list[bytes | None], sent_at: float, answer: v1.HeartbeatResponse
    ) -> list[HeldLease]:
        """Notes the answer to a heartbeat. Returns the leases that it has not extended because of their checkpoints."""
        state = self._state
        refused: list[HeldLease] = []
        self._health.note(None)
        self._needs_fresh_token = False
        extended = 0
        with state.lock:
            for lease, checkpoint, result in zip(leases, checkpoints, answer.results, strict=True):
                if result.outcome == v1.OUTCOME_APPLIED:
                    extended += 1
                    lease.extend(sent_at, duration_seconds(result.time_left))
                    if lease.new_checkpoint is checkpoint:
                        lease.new_checkpoint = None
                    lease.in_doubt = False
                    if lease.run is not None:
                        lease.run.context.in_doubt = any(other.in_doubt for other in lease.run.leases)
                elif result.outcome == v1.OUTCOME_REFUSED:
                    # The lease is still held. Without a checkpoint only a later heartbeat can succeed.
                    if checkpoint is not None:
                        state.refuse_checkpoint(lease, checkpoint, result.refusal.message)
                        if lease.wants_heartbeat:
                            refused.append(lease)
                elif lease.phase in (Phase.WAITING, Phase.RUNNING, Phase.DONE):
                    # A lease that is being settled may have ended by its settlement, whose answer tells.
                    state.lose(lease, result.cancel_reason or None)
            if extended:
                state.events.emit("heartbeat", count=extended)
        return refused

    def _note_failure(self, failure: CallFailure, period: float) -> None:
        """Sends the next heartbeat soon after one that failed."""
        state = self._state
        self._health.note(failure)
        if failure.code is grpc.StatusCode.DEADLINE_EXCEEDED and failure.reason is None:
            self._transport.reconnect()
        if failure.code is grpc.StatusCode.UNAUTHENTICATED:
            self._needs_fresh_token = True
        with state.lock:
            state.next_beat = min(state.next_beat, time.monotonic() + period / 4)
            state.clock.notify()
        state.options.logger.info("a heartbeat failed: %s: %s", failure.code.name, failure.message)


def stacks() -> str:
    """Returns the stacks of all threads, to show where a handler hangs."""
    texts = ("".join(traceback.format_stack(frame)) for frame in sys._current_frames().values())
    return "\n".join(texts)
