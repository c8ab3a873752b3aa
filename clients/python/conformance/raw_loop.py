"""The loop that throughput is compared with: claim n, then complete n with the next n, over the generated messages."""

from __future__ import annotations

import time
from typing import Any

import grpc
from journal import Journal

from lease_broker import v1

_SERVICE = "/leasebroker.v1.LeaseService/"


def run_raw_loop(options: dict[str, Any], journal: Journal) -> None:
    """Settles `until` items on one connection, without a library."""
    size, queue, until = options["concurrency"], options["queue"], options["until"]
    worker_id = options["worker_id"]
    channel = grpc.insecure_channel(options["address"], [("grpc.use_local_subchannel_pool", 1)])
    claim = channel.unary_unary(
        _SERVICE + "ClaimBatch", v1.ClaimBatchRequest.SerializeToString, v1.ClaimBatchResponse.FromString
    )
    complete = channel.unary_unary(
        _SERVICE + "Complete", v1.CompleteRequest.SerializeToString, v1.CompleteResponse.FromString
    )
    journal.write("ready")
    begun, cpu, items = time.monotonic(), time.process_time(), 0
    leases = claim(v1.ClaimBatchRequest(queue=queue, worker_id=worker_id, max_items=size)).leases
    while leases:
        completions = [v1.Completion(lease_id=lease.lease_id) for lease in leases]
        following = v1.NextClaim(worker_id=worker_id, max_items=size)
        answer = complete(v1.CompleteRequest(queue=queue, completions=completions, next=following))
        assert all(result.outcome == v1.OUTCOME_APPLIED for result in answer.results)
        items += len(completions)
        leases = answer.next.leases
    seconds, cpu_seconds = time.monotonic() - begun, time.process_time() - cpu
    assert items == until, f"{items} items instead of {until}"
    journal.write("done", items=items, seconds=seconds, cpu_seconds=cpu_seconds)
