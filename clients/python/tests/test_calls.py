"""Retries of requests, against a scripted server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from scripted import ScriptedServer, error, ok

from lease_broker import Client, Event, LeaseBrokerError, Worker, plaintext, v1
from lease_broker.calls import Caller, CallFailure
from lease_broker.client import _calls
from lease_broker.endings import completed
from lease_broker.events import Events
from lease_broker.health import CallHealth
from lease_broker.leases import HeldLease
from lease_broker.options import Options
from lease_broker.poller import Poller
from lease_broker.settler import outcome_event
from lease_broker.state import State
from lease_broker.transport import Transport

KEYS = ok(v1.EnqueueResponse(results=[v1.EnqueueResult(key="1")]))
UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server without TLS."""
    server = ScriptedServer()
    yield server
    server.close()


def enqueue(server: ScriptedServer, timeout: float = 60.0) -> list[str]:
    with Client(server.address, timeout=timeout) as client:
        return client.enqueue("work", [{"payload": "x"}])


def added(request: Any, _context: Any) -> Any:
    return v1.EnqueueResponse(results=[v1.EnqueueResult(key=str(number)) for number, _ in enumerate(request.items)])


@pytest.mark.parametrize(
    ("failure", "applied"),
    [
        (
            error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", applied="no", field='items[200].columns["n"]'),
            "partly",
        ),
        (error(EXHAUSTED, "IDENTITY_LIMIT", applied="no", pushback_ms=60_000), "partly"),
        (error(grpc.StatusCode.INTERNAL, "INTERNAL", applied="unknown"), "unknown"),
    ],
)
def test_error_after_the_first_rows_has_their_keys(server: ScriptedServer, failure: Any, applied: str) -> None:
    server.answer("Enqueue", added, failure)
    with Client(server.address, timeout=30.0) as client, pytest.raises(LeaseBrokerError) as raised:
        client.enqueue("work", [{}] * 1_500)
    refused = raised.value
    assert refused.keys == [str(number) for number in range(1_000)]
    assert (refused.applied, refused.temporary) == (applied, False)
    assert refused.field in (None, 'items[1200].columns["n"]')
    assert str(refused).endswith("; the first 1000 rows were added")


def test_call_has_at_most_65536_values() -> None:
    item = v1.NewItem(columns={str(number): v1.ColumnValue(int64_value=number) for number in range(70)})
    assert [len(part) for part in _calls([item] * 1_000)] == [936, 64]


def test_value_that_cannot_be_sent_adds_no_row(server: ScriptedServer) -> None:
    server.answer("Enqueue", added)
    with Client(server.address) as client, pytest.raises(TypeError):
        client.enqueue("work", [*[{}] * 1_200, {"payload": object()}])  # type: ignore[dict-item]
    assert not server.requests["Enqueue"]


@pytest.mark.parametrize(
    "failure",
    [
        error(UNAVAILABLE),
        error(UNAVAILABLE, "STORE_UNAVAILABLE"),
        error(EXHAUSTED, "OVERLOADED"),
        error(grpc.StatusCode.CANCELLED),
        error(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
        error(grpc.StatusCode.UNKNOWN),
        error(grpc.StatusCode.INTERNAL),
    ],
)
def test_passing_error_is_retried_with_the_same_request(server: ScriptedServer, failure: Any) -> None:
    server.answer("Enqueue", failure, failure, KEYS)
    assert enqueue(server) == ["1"]
    requests = server.requests["Enqueue"]
    assert len(requests) == 3
    assert requests[0].request_id
    assert all(request == requests[0] for request in requests)


@pytest.mark.parametrize(
    "failure",
    [
        error(EXHAUSTED),
        error(EXHAUSTED, "LIMIT_EXCEEDED"),
        error(UNAVAILABLE, "STORE_UNAVAILABLE", pushback_ms=-1),
        error(grpc.StatusCode.INTERNAL, "INTERNAL"),
        error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        error(grpc.StatusCode.PERMISSION_DENIED),
        error(grpc.StatusCode.UNAUTHENTICATED),
    ],
)
def test_lasting_error_is_not_retried(server: ScriptedServer, failure: Any) -> None:
    server.answer("Enqueue", failure, KEYS)
    with pytest.raises(LeaseBrokerError):
        enqueue(server)
    assert len(server.requests["Enqueue"]) == 1


@pytest.mark.parametrize("hint", [{"pushback_ms": 700}, {"retry_after": 0.7}, {"pushback_ms": 700, "retry_after": 90}])
def test_retry_waits_as_long_as_the_broker_asks(server: ScriptedServer, hint: Any) -> None:
    server.answer("Enqueue", error(UNAVAILABLE, "STORE_UNAVAILABLE", **hint), KEYS)
    begun = time.monotonic()
    enqueue(server)
    assert time.monotonic() - begun >= 0.7


def test_deadline_of_the_broker_is_retried_after_the_usual_wait(server: ScriptedServer) -> None:
    server.answer("Enqueue", error(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", pushback_ms=-1))
    with pytest.raises(LeaseBrokerError, match="DEADLINE_EXCEEDED"):
        enqueue(server, timeout=6.0)
    # On a busy machine few calls are sent in this time.
    assert 2 <= len(server.requests["Enqueue"]) <= 12


def test_deadline_of_a_next_claim_is_followed_by_the_usual_wait(server: ScriptedServer) -> None:
    failure = CallFailure(grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", "", -1.0)
    connection = Transport(server.address, plaintext())
    assert Caller(connection).pause_after_next(failure) == 0.1
    connection.close()


def test_wait_for_a_lock_that_lasts_stays_short(server: ScriptedServer) -> None:
    connection = Transport(server.address, plaintext())
    assert 0.125 <= Caller(connection).pause_after_lock("Complete", 2_000, left=60.0, attempt_timeout=0.5) <= 0.25
    connection.close()


@pytest.mark.parametrize(("sent", "applied"), [("no", "no"), ("unknown", "unknown"), (None, "unknown")])
def test_error_says_whether_the_call_was_applied(server: ScriptedServer, sent: str | None, applied: str) -> None:
    server.answer("Enqueue", error(grpc.StatusCode.ALREADY_EXISTS, "ALREADY_EXISTS", applied=sent))
    with pytest.raises(LeaseBrokerError) as failed:
        enqueue(server)
    assert (failed.value.reason, failed.value.applied) == ("ALREADY_EXISTS", applied)


def test_error_speaks_for_all_attempts(server: ScriptedServer) -> None:
    lost = error(UNAVAILABLE, "STORE_UNAVAILABLE", pushback_ms=1, applied="unknown")
    server.answer("Enqueue", lost, error(grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", applied="no"))
    with pytest.raises(LeaseBrokerError) as failed:
        enqueue(server)
    assert (failed.value.reason, failed.value.applied) == ("QUEUE_NOT_FOUND", "unknown")


def test_answer_with_another_count_of_results_is_an_error(server: ScriptedServer) -> None:
    server.answer("Enqueue", ok(v1.EnqueueResponse()))
    with pytest.raises(LeaseBrokerError, match="0 results for 1 entries"):
        enqueue(server)


def test_retries_end_when_the_time_is_over(server: ScriptedServer) -> None:
    server.answer("Enqueue", error(UNAVAILABLE))
    # The last attempt can have too little time for its answer.
    with pytest.raises(LeaseBrokerError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
        enqueue(server, timeout=6.0)
    # On a busy machine few calls are sent in this time.
    assert 2 <= len(server.requests["Enqueue"]) <= 12


def test_broker_that_is_not_there_is_named(server: ScriptedServer) -> None:
    server.close()
    connection = Transport(server.address, plaintext())
    with pytest.raises(LeaseBrokerError, match=r"(?i)connect"):
        Caller(connection).call("Wake", v1.WakeRequest(queue="work"), gives_up=lambda _failure: True)
    connection.close()


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED])
def test_refused_caller_ends_the_worker(server: ScriptedServer, code: grpc.StatusCode) -> None:
    server.answer("ClaimBatch", error(code))
    worker = Worker(server.address, "work", lambda item: None)
    with pytest.raises(LeaseBrokerError, match=code.name):
        worker.run()
    assert not worker.health()


def test_refusal_with_a_wait_does_not_end_the_worker(server: ScriptedServer) -> None:
    refusals = [
        error(grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_INVALID", retry_after=0.01),
        error(EXHAUSTED, "IDENTITY_LIMIT", retry_after=0.01),
    ]
    lease = v1.Lease(lease_id="one", item=v1.Item(key="1"))
    lease.time_left.FromSeconds(60)
    server.answer(
        "ClaimBatch", *refusals, *refusals, ok(v1.ClaimBatchResponse(leases=[lease])), ok(v1.ClaimBatchResponse())
    )
    settled = ok(v1.CompleteResponse(results=[v1.SettleResult(outcome=v1.OUTCOME_APPLIED)]))
    server.answer("Complete", *refusals, settled)
    extended = v1.HeartbeatResult(outcome=v1.OUTCOME_APPLIED, time_left=lease.time_left)
    server.answer("Heartbeat", ok(v1.HeartbeatResponse(results=[extended])))
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    done = threading.Event()
    events: list[Event] = []

    def observe(event: Event) -> None:
        events.append(event)
        if event.name == "completed":
            done.set()

    worker = Worker(server.address, "work", lambda item: None, on_event=observe, token="known")
    worker.start()
    assert done.wait(60)
    worker.stop()
    retries = [(event.details["code"], event.details["reason"]) for event in events if event.name == "retry"]
    expected = [("UNAUTHENTICATED", "CREDENTIALS_INVALID"), ("RESOURCE_EXHAUSTED", "IDENTITY_LIMIT")]
    assert retries[:6] == expected * 3


@pytest.mark.parametrize(
    ("reason", "hint", "temporary"), [("IDENTITY_LIMIT", 60.0, True), ("LIMIT_EXCEEDED", None, False)]
)
def test_error_says_whether_it_is_temporary(
    server: ScriptedServer, reason: str, hint: float | None, temporary: bool
) -> None:
    server.answer("Enqueue", error(EXHAUSTED, reason, retry_after=hint))
    with pytest.raises(LeaseBrokerError) as failed:
        enqueue(server, timeout=30.0)
    assert failed.value.temporary is temporary


def test_claim_that_is_too_large_to_receive_ends_the_worker(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", error(EXHAUSTED), ok(v1.ClaimBatchResponse()))
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    events: list[Event] = []
    worker = Worker(server.address, "work", lambda item: None, on_event=events.append, wait=0)
    worker.start()
    until = time.monotonic() + 60
    while not server.requests["ReleaseClaims"] and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(LeaseBrokerError, match="RESOURCE_EXHAUSTED"):
        worker.stop()
    [claim, *_] = server.requests["ClaimBatch"]
    [release, *_] = server.requests["ReleaseClaims"]
    assert list(release.request_ids) == [claim.request_id]
    assert release.worker_id == claim.worker_id


def test_health_is_false_when_calls_fail_for_a_lease(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", error(UNAVAILABLE))
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    worker = Worker(server.address, "work", lambda item: None, lease=1)
    assert worker.health()
    worker.start()
    until = time.monotonic() + 60
    while worker.health() and time.monotonic() < until:
        time.sleep(0.01)
    healthy = worker.health()
    worker.stop()
    assert not healthy


@pytest.mark.parametrize(
    ("attempts", "sent_after_deadline", "event"),
    [(1, False, "unknown"), (2, False, "completed"), (2, True, "unknown")],
)
def test_row_that_is_gone_is_completed_if_an_earlier_attempt_was_in_time(
    attempts: int, sent_after_deadline: bool, event: str
) -> None:
    from lease_broker.calls import Answer

    message = v1.Lease(lease_id="x")
    message.time_left.FromSeconds(10)
    lease = HeldLease(message.lease_id, message, time.monotonic(), time.monotonic())
    sent_at = lease.deadline + (1 if sent_after_deadline else -1)
    answer = Answer(None, sent_at + 1, attempts, sent_at)
    assert outcome_event(completed(lease), v1.OUTCOME_GONE, answer) == event


@pytest.mark.parametrize(
    ("failure", "calls"),
    [
        (error(grpc.StatusCode.PERMISSION_DENIED, "ROLE"), 1),
        (error(EXHAUSTED, "IDENTITY_LIMIT", pushback_ms=60_000), 3),
    ],
)
def test_release_of_claims_is_sent_again_only_if_it_can_succeed(
    server: ScriptedServer, failure: Any, calls: int
) -> None:
    server.answer("ReleaseClaims", failure)
    options = Options("work")
    state = State(options, Events("work", None, options.logger))
    state.abandoned_requests.append("a")
    connection = Transport(server.address, plaintext())
    poller = Poller(state, Caller(connection), CallHealth(), lambda _error: None)
    for forget in (False, True, True):
        poller.release_abandoned(forget)
    connection.close()
    assert len(server.requests["ReleaseClaims"]) == calls
