"""The vectors of the state machine in `clients/vectors`, which all libraries share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from lease_broker import Cancelled, Context, Item, plaintext, v1
from lease_broker.calls import Answer, Caller
from lease_broker.endings import completed, failed, of_raise, released
from lease_broker.errors import LeaseBrokerError
from lease_broker.events import Events
from lease_broker.health import CallHealth
from lease_broker.keeper import Keeper
from lease_broker.leases import HeldLease
from lease_broker.options import Options
from lease_broker.settler import Settlement, Settler
from lease_broker.state import State
from lease_broker.transport import Transport
from lease_broker.values import duration

CASES = json.loads((Path(__file__).parents[2] / "vectors" / "worker.json").read_text())["cases"]
OUTCOMES = {
    "applied": v1.OUTCOME_APPLIED,
    "lost": v1.OUTCOME_LEASE_LOST,
    "gone": v1.OUTCOME_GONE,
    "refused": v1.OUTCOME_REFUSED,
    "locked": v1.OUTCOME_REFUSED,
}
IN_VECTORS = {
    *("claimed", "started", "completed", "failed", "released", "lost", "refused", "unknown"),
    *("heartbeat", "heartbeat_missed", "cancelled", "stuck"),
}


class Recorder(Events):
    """Records events as actions."""

    def __init__(self, actions: list[str]) -> None:
        super().__init__("work", None, Options("work").logger)
        self._actions = actions

    def emit(self, name: Any, item: Item | None = None, **details: Any) -> None:
        if name == "heartbeat":
            self._actions.append(f"report heartbeat {details['count']}")
        elif name in IN_VECTORS:
            assert item is not None
            cause = f" {details['cause']}" if name in ("cancelled", "stuck") else ""
            text = details.get("error") if name == "failed" else details.get("reason")
            self._actions.append(f"report {name} {item.key}{cause}" + (f": {text}" if text else ""))

    def emit_all(self, name: Any, leases: Any) -> None:
        for lease in leases:
            self.emit(name, lease.item)


class Heartbeat:
    """A heartbeat that was sent. Its answer arrives when the test says so."""

    def __init__(self, request: Any) -> None:
        self.request = request
        self._answered: Callable[[Any], None] = lambda _future: None
        self._answer: Any = None

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        self._answered = function

    def answer(self, answer: Any) -> None:
        self._answer = answer
        self._answered(self)

    def result(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class Task:
    """The task of a handler."""

    def __init__(self, machine: Machine, run: Context, name: str) -> None:
        self._machine, self._run, self._name = machine, run, name

    def get_loop(self) -> Task:
        return self

    def get_coro(self) -> None:
        """It has no stack."""

    def call_soon_threadsafe(self, _cancel: object, cause: str) -> None:
        if self._run in self._machine.state.runs:
            self._machine.actions.append(f"cancel {self._name} {cause}")

    def cancel(self) -> None:
        """See above."""


class Failed(grpc.RpcError):
    """The error of an attempt."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "failed"

    def trailing_metadata(self) -> tuple[Any, ...]:
        return ()


class Machine:
    """A state machine with a clock that the test sets. It stands for the connection of its keeper."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.time = 0.0
        self.actions: list[str] = []
        limit, batch = options.get("time_limit_ms"), options.get("batch", 1)
        self.options = Options(
            "work",
            concurrency=options.get("slots", 1),
            batch=batch if batch > 1 else None,
            heartbeat=options.get("heartbeat", True),
            time_limit=limit / 1000 if limit else None,
            stuck_after=options.get("stuck_after_ms", 30_000) / 1000,
            max_stuck=options.get("max_stuck"),
        )
        self.state = State(self.options, Recorder(self.actions), lambda: self.time)
        self.state.start_runs = self.start_runs
        self.caller = Caller(Transport("127.0.0.1:1", plaintext()))

        def on_fatal(error: Exception) -> None:
            pytest.fail(str(error))

        self.keeper = Keeper(self.state, self, self.caller, CallHealth(), on_fatal)  # type: ignore[arg-type]
        self.settler = Settler(self.state, self.caller, on_fatal)
        self.runs: list[Context] = []
        self.heartbeats: list[Heartbeat] = []
        self.settlements: list[Settlement] = []
        self.sent_at: dict[int, tuple[float, int]] = {}
        self.claimed_slots = 0
        self.returned: list[Context] = []

    # The keeper's transport and broker.
    def route(self) -> Machine:
        return self

    def note(self, *_arguments: Any, **_names: Any) -> None:
        """Nothing is sent."""

    def start(self, _rpc: str, request: Any, _timeout: float, _metadata: Any) -> Heartbeat:
        renewals = request.renewals
        self.actions.append("send heartbeat " + ids((r.lease_id, r.checkpoint) for r in renewals))
        self.heartbeats.append(Heartbeat(request))
        return self.heartbeats[-1]

    def start_runs(self, runs: list[Context]) -> None:
        """Starts the handlers. They hear of a cancellation as a task does."""
        for run in runs:
            self.runs.append(run)
            ((_, leases),) = self.state.begin((run,))
            name = ids((lease.id, b"") for lease in leases)
            self.actions.append(f"start {name}")
            run._set_task(Task(self, run, name))  # type: ignore[arg-type]

    def step(self, step: dict[str, Any]) -> float:
        """Applies an event. Returns the moment to look again."""
        self.time = step["at_ms"] / 1000
        self.actions.clear()
        getattr(self, step["event"])(step)
        wake = self.keeper.look(self.time)
        self.keeper.send()
        if not self.settlements:
            self.state.requeue_locked()
            for call in self.settler.take():
                self.send(call)
            if not self.settlements:
                self.settler.finish()
        if self.state.may_claim and not self.claimed_slots:
            self.claimed_slots = self.state.reserve_slots()
            if self.claimed_slots:
                self.actions.append(f"claim {self.claimed_slots * self.options.slot_size}")
        return wake

    def send(self, call: Settlement) -> None:
        entries = self.entries(call)
        text = f"send {call.rpc.lower()} {ids((e.lease_id, getattr(e, 'checkpoint', b'')) for e in entries)}"
        if call.slots:
            text += f", claim {call.request.next.max_items}"
        self.actions.append(text)
        self.settlements.append(call)
        self.sent_at[id(call)] = (self.time, 1)

    @staticmethod
    def entries(call: Settlement) -> Any:
        fields = {"Complete": "completions", "Fail": "failures", "Release": "releases"}
        return getattr(call.request, fields[call.rpc])

    def begin(self, _step: dict[str, Any]) -> None:
        """The poller claims."""

    time_passed = begin

    def claimed(self, step: dict[str, Any]) -> None:
        slots, self.claimed_slots = self.claimed_slots, 0
        sent_at = step.get("sent_ms", step["at_ms"]) / 1000
        self.state.accept(leases(step["leases"], step["time_left_ms"]), slots, sent_at)

    def returned_(self, step: dict[str, Any]) -> None:
        run = next(run for run in self.runs if [lease.item.key for lease in run._leases] == step["run"])
        self.runs.remove(run)
        self.returned.append(run)
        held: list[HeldLease] = list(run._leases)
        match step["with"]:
            case "result":
                results = [completed(lease) for lease in held]
            case "release":
                results = [released(lease) for lease in held]
            case "cancellation":
                results = of_raise(held, Cancelled(run.cause or "shutdown"), run.cause, self.options.time_limit)
            case kind:
                results = [failed(lease, step["text"], dead=kind == "dead_letter") for lease in held]
        self.state.end([(run, results)])

    def checkpoint(self, step: dict[str, Any]) -> None:
        runs = [*self.runs, *self.returned]
        run = next(run for run in runs if step["lease"] in [lease.id for lease in run._leases])
        run.checkpoint(b"x" * step["bytes"])

    def answer(self, step: dict[str, Any]) -> None:
        if step["to"] == "heartbeat":
            heartbeat = self.heartbeats.pop(0)
            answer = v1.HeartbeatResponse()
            for renewal in heartbeat.request.renewals:
                outcome, _, text = step["outcomes"][renewal.lease_id].partition(": ")
                result = answer.results.add(outcome=OUTCOMES[outcome])
                if outcome == "applied":
                    result.time_left.CopyFrom(duration(step["time_left_ms"] / 1000))
                elif outcome in ("refused", "locked"):
                    result.refusal.CopyFrom(refusal(outcome, text))
                else:
                    result.cancel_reason = text
            heartbeat.answer(answer)
            return
        call = self.take_call(step)
        message = {"Complete": v1.CompleteResponse, "Fail": v1.FailResponse, "Release": v1.ReleaseResponse}[call.rpc]()
        for entry in self.entries(call):
            outcome, _, text = step["outcomes"][entry.lease_id].partition(": ")
            result = message.results.add(outcome=OUTCOMES[outcome])
            if outcome in ("refused", "locked"):
                result.refusal.CopyFrom(refusal(outcome, text))
        if "next" in step:
            message.next.leases.extend(leases(step["next"], step["time_left_ms"]))
        sent_at, attempts = self.sent_at.pop(id(call))
        self.settler.note_answer(call, Answer(message, self.time, attempts, sent_at))
        if not self.settlements:
            self.settler.finish()

    def failed(self, step: dict[str, Any]) -> None:
        if step["to"] == "heartbeat":
            self.heartbeats.pop(0).answer(Failed())
            return
        call = self.take_call(step)
        self.settler.note_error(call, LeaseBrokerError(call.rpc, "UNAVAILABLE", None, "no answer", temporary=True))
        if not self.settlements:
            self.settler.finish()

    def take_call(self, step: dict[str, Any]) -> Settlement:
        call = next(call for call in self.settlements if call.rpc.lower() == step["to"])
        self.settlements.remove(call)
        return call

    def resent(self, step: dict[str, Any]) -> None:
        call = next(call for call in self.settlements if call.rpc.lower() == step["to"])
        sent_at, attempts = self.sent_at[id(call)]
        self.sent_at[id(call)] = (sent_at, attempts + 1)
        self.settler.note_resent(call)

    def stop(self, _step: dict[str, Any]) -> None:
        self.state.stop()

    def cancel(self, _step: dict[str, Any]) -> None:
        self.state.cancel_all()

    def leave(self, _step: dict[str, Any]) -> None:
        self.state.leave_handlers()


def ids(entries: Any) -> str:
    """Returns the sorted ids of leases, with the sizes of their checkpoints."""
    return " ".join(sorted(f"{lease}+{len(data)}" if data else lease for lease, data in entries))


def leases(names: list[str], time_left_ms: int) -> list[v1.Lease]:
    return [
        v1.Lease(lease_id=name, item=v1.Item(key=name), attempt=1, time_left=duration(time_left_ms / 1000))
        for name in names
    ]


def refusal(outcome: str, text: str) -> v1.Refusal:
    if outcome == "locked":
        return v1.Refusal(reason=v1.REFUSAL_REASON_LOCKED)
    field, _, message = text.partition(": ")
    return v1.Refusal(field=field, message=message) if message else v1.Refusal(message=text)


EVENTS = {"time": "time_passed", "returned": "returned_"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_vector(case: dict[str, Any]) -> None:
    machine = Machine(case["options"])
    for step in case["steps"]:
        with machine.state.lock:
            wake = machine.step({**step, "event": EVENTS.get(step["event"], step["event"])})
        assert sorted(machine.actions) == sorted(step["actions"]), step
        if "wakes_by_ms" in step:
            assert wake <= step["wakes_by_ms"] / 1000 + 1e-9, step
