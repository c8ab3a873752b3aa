"""Claims, heartbeats and settlements, against a scripted server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from scripted import Answer, ScriptedServer, error, ok

from lease_broker import Context, Event, Item, LeaseBrokerError, Retry, Worker, v1
from lease_broker.calls import CallFailure
from lease_broker.events import Events
from lease_broker.leases import HeldLease
from lease_broker.options import Options
from lease_broker.state import State
from lease_broker.transport import Broker
from lease_broker.way import Way

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
SHORT_LEASE = 6
"""The seconds of a lease that a test outlives. Its heartbeats can be late by more than 3 s, as on a busy machine."""
APPLIED, REFUSED = v1.OUTCOME_APPLIED, v1.OUTCOME_REFUSED
TOO_LARGE = v1.Refusal(reason=v1.REFUSAL_REASON_INVALID_FIELD, field="checkpoint", message="it is too large")
LOCKED = v1.Refusal(reason=v1.REFUSAL_REASON_LOCKED, message="locked")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that extends and applies everything."""
    server = ScriptedServer()
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    yield server
    server.close()


def lease(key: str, seconds: int = 60) -> v1.Lease:
    message = v1.Lease(lease_id=f"lease-{key}", item=v1.Item(key=key), attempt=1, fencing_token=1)
    message.time_left.FromSeconds(seconds)
    return message


def claims(*leases: v1.Lease) -> tuple[Answer, Answer]:
    """Answers the first claim with leases, and the others with none."""
    return ok(v1.ClaimBatchResponse(leases=leases)), ok(v1.ClaimBatchResponse())


def extend(request: v1.HeartbeatRequest, _context: Any) -> v1.HeartbeatResponse:
    answer = v1.HeartbeatResponse()
    for renewal in request.renewals:
        if len(renewal.checkpoint) > 100:
            answer.results.add(outcome=REFUSED, refusal=TOO_LARGE)
        else:
            answer.results.add(outcome=APPLIED).time_left.FromSeconds(SHORT_LEASE)
    return answer


def complete(request: v1.CompleteRequest, _context: Any) -> v1.CompleteResponse:
    return v1.CompleteResponse(results=[v1.SettleResult(outcome=APPLIED) for _ in request.completions])


def fail(request: v1.FailRequest, _context: Any) -> v1.FailResponse:
    return v1.FailResponse(results=[v1.SettleResult(outcome=APPLIED) for _ in request.failures])


def work(
    server: ScriptedServer, handler: Callable[..., Any], until: Callable[[list[Event]], bool], **options: Any
) -> list[Event]:
    """Runs a worker until its events meet a condition, and stops it."""
    events: list[Event] = []
    worker = Worker(server.address, "work", handler, wait=0, on_event=events.append, **options)
    worker.start()
    limit = time.monotonic() + 60
    while not (met := until(events)) and time.monotonic() < limit:
        time.sleep(0.01)
    worker.stop()
    assert met, events
    return events


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def test_heartbeats_keep_results_that_wait_behind_a_retry(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1", SHORT_LEASE), lease("2", SHORT_LEASE)))
    server.answer("Heartbeat", extend)
    # Longer than a lease.
    pause = (SHORT_LEASE + 2) * 1_000
    server.answer("Complete", error(UNAVAILABLE, "STORE_UNAVAILABLE", pushback_ms=pause), complete)
    retried = threading.Event()

    def until(events: list[Event]) -> bool:
        if "retry" in names(events):
            retried.set()
        return names(events).count("completed") == 2

    def handler(item: Item) -> None:
        if item.key == "2":
            retried.wait(60)

    events = work(server, handler, until, concurrency=2)
    assert "lost" not in names(events)
    assert [len(request.completions) for request in server.requests["Complete"]] == [1, 1, 1]
    kept = [{renewal.lease_id for renewal in request.renewals} for request in server.requests["Heartbeat"]]
    assert sum(leases == {"lease-1", "lease-2"} for leases in kept) >= 3, kept


def test_refused_renewal_is_sent_again_without_its_checkpoint(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1", SHORT_LEASE), lease("2", SHORT_LEASE)))
    sent_twice = threading.Event()

    def answer(request: v1.HeartbeatRequest, context: Any) -> v1.HeartbeatResponse:
        if len(server.requests["Heartbeat"]) >= 2:
            sent_twice.set()
        return extend(request, context)

    server.answer("Heartbeat", answer)
    server.answer("Complete", complete)

    def handler(item: Item, context: Context) -> None:
        if item.key == "1":
            context.checkpoint(b"x" * 101)
        sent_twice.wait(60)

    events = work(server, handler, lambda events: names(events).count("completed") == 2, concurrency=2)
    assert "lost" not in names(events)
    sent = [[(r.lease_id[-1], len(r.checkpoint)) for r in request.renewals] for request in server.requests["Heartbeat"]]
    assert sent[:2] == [[("1", 101), ("2", 0)], [("1", 0)]], sent


@pytest.mark.parametrize(
    ("refused", "checkpoint", "delay"), [("checkpoint", b"", 7), ("retry_delay", b"half", 0), ("", b"", 7)]
)
def test_refused_failure_is_sent_again_without_the_refused_field(
    server: ScriptedServer, refused: str, checkpoint: bytes, delay: int
) -> None:
    refusal = v1.SettleResult(outcome=REFUSED, refusal=v1.Refusal(field=refused, message="no"))
    server.answer("ClaimBatch", *claims(lease("1")))
    applied = v1.SettleResult(outcome=APPLIED)
    server.answer("Fail", ok(v1.FailResponse(results=[refusal])), ok(v1.FailResponse(results=[applied])))

    def handler(item: Item, context: Context) -> None:
        context.checkpoint(b"half")
        raise Retry("again", after=7)

    events = work(server, handler, lambda events: "failed" in names(events))
    [reason] = [event.details["reason"] for event in events if event.name == "refused"]
    assert reason == (f"{refused}: no" if refused else "no")
    first, second = [request.failures[0] for request in server.requests["Fail"]]
    assert (first.checkpoint, first.retry_delay.seconds) == (b"half", 7)
    assert (second.checkpoint, second.retry_delay.seconds) == (checkpoint, delay)
    assert second.error_message == "Retry: again"


def test_refused_completion_is_logged_with_the_reason(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    refusal = v1.Refusal(field='columns["Total"]', message="12.5 is a float")
    server.answer("ClaimBatch", *claims(lease("1")))
    server.answer("Complete", ok(v1.CompleteResponse(results=[v1.SettleResult(outcome=REFUSED, refusal=refusal)])))
    server.answer("Fail", fail)
    work(server, lambda item: None, lambda events: "failed" in names(events))
    [record] = caplog.records
    assert record.levelname == "WARNING"
    text = 'queue work: ending refused: complete item 1 (attempt 1): columns["Total"]: 12.5 is a float'
    assert record.getMessage() == text


def test_endings_do_not_wait_for_a_locked_row(server: ScriptedServer) -> None:
    refused, unlocked = threading.Event(), threading.Event()

    def settle(request: v1.CompleteRequest, context: Any) -> v1.CompleteResponse:
        answer = complete(request, context)
        for entry, result in zip(request.completions, answer.results, strict=True):
            if entry.lease_id == "lease-2":
                unlocked.set()
            elif not unlocked.is_set():
                result.CopyFrom(v1.SettleResult(outcome=REFUSED, refusal=LOCKED))
        return answer

    def handler(item: Item) -> None:
        if item.key == "2":
            refused.wait(60)

    def until(events: list[Event]) -> bool:
        if "retry" in names(events):
            refused.set()
        return names(events).count("completed") == 2

    server.answer("ClaimBatch", *claims(lease("1"), lease("2")))
    server.answer("Heartbeat", extend)
    server.answer("Complete", settle)
    events = work(server, handler, until, concurrency=2)
    assert [event.key for event in events if event.name == "completed"] == ["2", "1"]
    assert {event.details["reason"] for event in events if event.name == "retry"} == {"LOCKED"}
    assert "refused" not in names(events)


def test_stop_waits_for_a_locked_row(server: ScriptedServer) -> None:
    locked = v1.CompleteResponse(results=[v1.SettleResult(outcome=REFUSED, refusal=LOCKED)])
    server.answer("ClaimBatch", *claims(lease("1")))
    server.answer("Heartbeat", extend)
    server.answer("Complete", ok(locked), ok(locked), complete)
    events = work(server, lambda item: None, lambda events: "retry" in names(events))
    retries = [(event.details["reason"], event.details["attempt"]) for event in events if event.name == "retry"]
    assert retries == [("LOCKED", 1), ("LOCKED", 2)]
    assert "completed" in names(events)


def test_lock_that_outlasts_the_lease_leaves_the_item_unknown(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1", 2)))
    server.answer("Heartbeat", ok(v1.HeartbeatResponse(results=[v1.HeartbeatResult(outcome=REFUSED, refusal=LOCKED)])))
    server.answer("Complete", ok(v1.CompleteResponse(results=[v1.SettleResult(outcome=REFUSED, refusal=LOCKED)])))
    events = work(server, lambda item: None, lambda events: "unknown" in names(events))
    [error] = [event.details["error"] for event in events if event.name == "unknown"]
    assert "another transaction has locked the row" in error
    assert "lost" not in names(events)


def test_wrong_count_of_results_leaves_the_items_unknown(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1")))
    server.answer("Complete", ok(v1.CompleteResponse(next=v1.ClaimBatchResponse(leases=[lease("2")]))))
    events = work(server, lambda item: None, lambda events: "unknown" in names(events))
    assert names(events).count("claimed") == 1


def test_settlement_that_a_proxy_finds_invalid_is_sent_item_by_item(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1"), lease("2")))
    server.answer("Fail", fail)

    def answer(request: v1.CompleteRequest, context: Any) -> v1.CompleteResponse:
        if any(each.lease_id == "lease-2" for each in request.completions):
            return error(grpc.StatusCode.INVALID_ARGUMENT)(request, context)  # type: ignore[no-any-return]
        return complete(request, context)

    server.answer("Complete", answer)
    events = work(server, lambda _: None, lambda events: "failed" in names(events), batch=2)
    assert names(events).count("completed") == 1
    assert "unknown" not in names(events)


def test_claim_and_next_claim_name_the_groups(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1")))
    server.answer("Complete", complete)
    work(server, lambda item: None, lambda events: "completed" in names(events), groups=["42", "43"])
    assert server.requests["ClaimBatch"][0].groups == ["42", "43"]
    assert server.requests["Complete"][0].next.groups == ["42", "43"]


def test_failed_next_claim_delays_the_next_one(server: ScriptedServer) -> None:
    answers = claims(lease("1"))
    claimed_at: list[float] = []

    def claim(request: Any, context: grpc.ServicerContext) -> Any:
        claimed_at.append(time.monotonic())
        return answers[len(claimed_at) > 1](request, context)

    def fail_next(request: Any, context: grpc.ServicerContext) -> Any:
        answer = complete(request, context)
        answer.next_error.code, answer.next_error.reason = UNAVAILABLE.value[0], "STORE_UNAVAILABLE"
        answer.next_error.retry_delay.FromMilliseconds(700)
        answered_at.append(time.monotonic())
        return answer

    answered_at: list[float] = []
    server.answer("ClaimBatch", claim)
    server.answer("Complete", fail_next)
    events = work(server, lambda item: None, lambda events: len(claimed_at) >= 2)
    [retry] = [event.details for event in events if event.name == "retry"]
    assert (retry["rpc"], retry["code"], retry["reason"]) == ("ClaimBatch", "UNAVAILABLE", "STORE_UNAVAILABLE")
    assert claimed_at[1] - answered_at[0] >= 0.7
    # Whether the claim was applied is not known.
    [completion] = server.requests["Complete"]
    assert completion.next.request_id in server.requests["ReleaseClaims"][0].request_ids


def test_next_claim_that_is_refused_ends_the_worker(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", *claims(lease("1")))
    answer = complete(v1.CompleteRequest(completions=[v1.Completion()]), None)
    answer.next_error.code = grpc.StatusCode.PERMISSION_DENIED.value[0]
    answer.next_error.metadata["applied"] = "no"
    server.answer("Complete", ok(answer))
    with pytest.raises(LeaseBrokerError, match="ClaimBatch: PERMISSION_DENIED"):
        Worker(server.address, "work", lambda item: None, wait=0).run()
    # The claim was not applied, so there is nothing to release.
    [completion] = server.requests["Complete"]
    assert all(completion.next.request_id not in call.request_ids for call in server.requests["ReleaseClaims"])


def test_settlement_whose_next_claim_is_refused_is_sent_without_it(server: ScriptedServer) -> None:
    refused = error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", -1, applied="no", field="next.lease_duration")

    def settle(request: v1.CompleteRequest, context: Any) -> Any:
        return (refused if request.HasField("next") else complete)(request, context)

    server.answer("ClaimBatch", claims(lease("1"))[0], refused)
    server.answer("Complete", settle)
    worker = Worker(server.address, "work", lambda item: None, wait=0)
    # The next claim of the poller meets the error itself.
    with pytest.raises(LeaseBrokerError, match="ClaimBatch: INVALID_ARGUMENT"):
        worker.run()
    assert worker.counters()["completed"] == 1
    assert worker._queues[0].state.free_slots == 1


def test_claim_that_a_stopping_broker_answers_is_followed_by_a_pause(server: ScriptedServer) -> None:
    stopping = v1.ClaimBatchResponse(held_back=v1.HELD_BACK_STOPPING)
    claimed_at: list[float] = []

    def claim(_request: Any, _context: grpc.ServicerContext) -> v1.ClaimBatchResponse:
        claimed_at.append(time.monotonic())
        return stopping

    server.answer("ClaimBatch", claim)
    # A claim that does not wait is never answered early.
    work(server, lambda item: None, lambda _events: len(claimed_at) >= 4)
    assert all(later - earlier >= 0.045 for earlier, later in pairwise(claimed_at))


def test_unexpected_error_of_a_settlement_leaves_its_item_unknown(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer("ClaimBatch", *claims(lease("1"), lease("2")))
    server.answer("Heartbeat", extend)
    server.answer("Complete", complete)
    both = threading.Barrier(2)
    call = Broker.call

    def fail_unexpectedly(broker: Broker, rpc: str, *arguments: Any) -> Any:
        if rpc == "Fail":
            raise MemoryError
        return call(broker, rpc, *arguments)

    def handler(item: Item) -> None:
        both.wait(60)
        if item.key == "1":
            raise Retry

    monkeypatch.setattr(Broker, "call", fail_unexpectedly)
    events: list[Event] = []
    worker = Worker(server.address, "work", handler, wait=0, concurrency=2, on_event=events.append)
    worker.start()
    assert worker.wait(60)
    with pytest.raises(MemoryError):
        worker.stop()
    assert [event.key for event in events if event.name == "completed"] == ["2"]
    assert [(e.key, e.details["error"]) for e in events if e.name == "unknown"] == [
        ("1", "Fail: UNKNOWN: MemoryError()")
    ]


def test_group_is_settled_if_no_thread_can_be_started(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer("ClaimBatch", *claims(lease("1"), lease("2")))
    server.answer("Heartbeat", extend)
    server.answer("Complete", complete)
    server.answer("Fail", fail)
    both = threading.Barrier(2)
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def refuse(thread: threading.Thread) -> None:
        if threading.current_thread().name == "lease-broker-settler":
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    def handler(item: Item) -> None:
        both.wait(60)
        if item.key == "1":
            raise Retry

    ended = threading.Semaphore(0)
    end = State.end

    def note_end(state: State, *arguments: Any) -> None:
        end(state, *arguments)
        ended.release()

    def wait_for_both(_seconds: float) -> None:
        assert all(ended.acquire(timeout=60) for _ in range(2))

    # The settler waits until both have ended, so that they share a group.
    monkeypatch.setattr("lease_broker.settler.time", SimpleNamespace(sleep=wait_for_both))
    monkeypatch.setattr(State, "end", note_end)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    events = work(server, handler, lambda events: {"completed", "failed"} <= set(names(events)), concurrency=2)
    assert refused
    assert "unknown" not in names(events)


@pytest.mark.parametrize(
    ("text", "retries"), [("Received http2 header with status: 413", False), ("a page of the proxy", True)]
)
def test_settlement_that_a_proxy_refuses_fails_its_item(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, text: str, retries: bool
) -> None:
    def refuse(_request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.UNKNOWN, text)

    monkeypatch.setattr("lease_broker.way.PATIENCE", 0.3)
    server.answer("ClaimBatch", *claims(lease("1")))
    server.answer("Heartbeat", extend)
    server.answer("Complete", refuse)
    server.answer("Fail", fail)
    events = work(server, lambda _item: None, lambda events: "failed" in names(events))
    assert ("retry" in names(events)) is retries
    assert [event.details["error"] for event in events if event.name == "failed"] == [f"Refused: {text}"]


def attempts(codes: str, answered: str, seconds: list[float]) -> list[bool]:
    """Judges attempts at these moments. `answered`: for each, whether a heartbeat is answered after it.

    If they are refused, the first attempt of a part follows.
    """
    clock = [0.0]
    options = Options("work")
    state = State(options, Events("work", None, options.logger), lambda: clock[0])
    held = HeldLease("1", lease("1"), 0.0, 0.0)
    held.last_answer = -1.0
    way, judged = Way(state, [held]), []
    for code, beat, now in zip(codes, answered, seconds, strict=True):
        clock[0] = now
        status = {"I": grpc.StatusCode.INTERNAL, "U": grpc.StatusCode.UNAVAILABLE}[code]
        failure = CallFailure(status, None, "", None)
        judged.append(way.note(failure))
        if beat == "+":
            held.last_answer = now
    return [*judged, way.of(held).note(failure)] if way.refuses else judged


def test_way_refuses_if_heartbeats_are_answered_meanwhile() -> None:
    assert attempts("IIII", "++++", [0, 1, 10, 11])[:4] == [False, False, False, True]
    # An outage, the end of one, one in between, and a broker that is away.
    assert not any(attempts("III", "---", [0, 1, 60]))
    assert not any(attempts("IIII", "-+++", [0, 60, 61, 70]))
    assert not any(attempts("IIII", "+-++", [0, 1, 9, 12]))
    assert not any(attempts("UUU", "+++", [0, 1, 60]))


def test_part_of_a_refused_settlement_is_refused_at_once() -> None:
    # No heartbeat is sent between the last attempt of the whole and the first one of a part.
    assert attempts("III", "++-", [0, 1, 11]) == [False, False, True, True]
