"""Settlements that take long, against a scripted server."""

from __future__ import annotations

import threading
from typing import Any

import grpc
from scripted import ScriptedServer, error, ok

from lease_broker import Event, Item, Worker, v1


def lease(key: str, seconds: int) -> v1.Lease:
    message = v1.Lease(lease_id=f"lease-{key}", item=v1.Item(key=key), attempt=1, fencing_token=1)
    message.time_left.FromSeconds(seconds)
    return message


def extend(request: v1.HeartbeatRequest, _context: Any) -> v1.HeartbeatResponse:
    answer = v1.HeartbeatResponse()
    for renewal in request.renewals:
        result = answer.results.add(lease_id=renewal.lease_id, outcome=v1.OUTCOME_APPLIED)
        result.time_left.FromSeconds(2)
    return answer


def complete(request: v1.CompleteRequest, _context: Any) -> v1.CompleteResponse:
    results = [
        v1.SettleResult(lease_id=completion.lease_id, outcome=v1.OUTCOME_APPLIED) for completion in request.completions
    ]
    return v1.CompleteResponse(results=results)


def test_heartbeats_keep_results_that_wait_behind_a_retry() -> None:
    server = ScriptedServer()
    server.answer(
        "ClaimBatch", ok(v1.ClaimBatchResponse(leases=[lease("1", 2), lease("2", 2)])), ok(v1.ClaimBatchResponse())
    )
    server.answer("Heartbeat", extend)
    server.answer("Release", ok(v1.ReleaseResponse()))
    # Longer than a lease.
    server.answer("Complete", error(grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE", pushback_ms=4000), complete)
    retried, completed = threading.Event(), threading.Semaphore(0)
    names: list[str] = []

    def on_event(event: Event) -> None:
        names.append(event.name)
        if event.name == "retry":
            retried.set()
        if event.name == "completed":
            completed.release()

    def handler(item: Item) -> None:
        if item.key == "2":
            retried.wait(10)

    worker = Worker(server.address, "work", handler, concurrency=2, wait=0, on_event=on_event)
    worker.start()
    both = completed.acquire(timeout=10) and completed.acquire(timeout=10)
    worker.stop()
    server.close()
    assert both, names
    assert "lost" not in names
    assert [len(request.completions) for request in server.requests["Complete"]] == [1, 1, 1]
    kept = [{renewal.lease_id for renewal in request.renewals} for request in server.requests["Heartbeat"]]
    assert sum(leases == {"lease-1", "lease-2"} for leases in kept) >= 3, kept
