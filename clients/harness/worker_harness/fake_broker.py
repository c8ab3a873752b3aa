"""A broker without a database. It leases the given items, and applies settlements unless a scenario changes that."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc
from lease_broker import v1

from worker_harness.worker import now_ms

_LEASE_SECONDS = 60
_MAX_WAIT_SECONDS = 1.0
# A value that no library knows. It means the same as HELD_BACK_NOTHING_READY.
_NEWER_HELD_BACK = b"\x18\x63"


@dataclass(frozen=True)
class Call:
    """A call that has arrived."""

    rpc: str
    request: Any
    at_ms: float


class FakeBroker(grpc.GenericRpcHandler):
    """Serves until the end of its `with` statement. `change_answer` gets each request with its answer."""

    def __init__(self, leases: Sequence[v1.Lease], change_answer: Callable[[Any, Any], None]) -> None:
        self.calls: list[Call] = []
        self._leases = list(leases)
        self._change_answer = change_answer
        self._server = grpc.server(ThreadPoolExecutor(10))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> FakeBroker:
        self._server.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.stop(0).wait()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        rpc = handler_call_details.method.removeprefix("/leasebroker.v1.LeaseService/")

        def handle(request: Any, _context: grpc.ServicerContext) -> Any:
            self.calls.append(Call(rpc, request, now_ms()))
            answer = self._answer(request)
            self._change_answer(request, answer)
            return answer

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=getattr(v1, f"{rpc}Request").FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    def _answer(self, request: Any) -> Any:
        match request:
            case v1.ClaimBatchRequest():
                return self._claim(request)
            case v1.HeartbeatRequest():
                answer = v1.HeartbeatResponse()
                for _ in request.renewals:
                    answer.results.add(outcome=v1.OUTCOME_APPLIED).time_left.FromSeconds(_LEASE_SECONDS)
                return answer
            case v1.CompleteRequest():
                return v1.CompleteResponse(results=applied(request.completions), next=nothing())
            case v1.FailRequest():
                return v1.FailResponse(results=applied(request.failures), next=nothing())
            case v1.ReleaseRequest():
                return v1.ReleaseResponse(results=applied(request.releases))
            case v1.ReleaseClaimsRequest():
                return v1.ReleaseClaimsResponse()
        raise AssertionError(f"no worker sends {request}")

    def _claim(self, request: v1.ClaimBatchRequest) -> v1.ClaimBatchResponse:
        leases, self._leases = self._leases[: request.max_items], self._leases[request.max_items :]
        if leases:
            return v1.ClaimBatchResponse(leases=leases)
        time.sleep(min(request.wait_timeout.ToTimedelta().total_seconds(), _MAX_WAIT_SECONDS))
        return nothing()


def lease(key: str, payload: v1.ColumnValue | None = None) -> v1.Lease:
    """Returns a lease whose id is the key. Without a payload its handler returns immediately."""
    columns = {"payload": payload or v1.ColumnValue(string_value="{}")}
    message = v1.Lease(lease_id=key, item=v1.Item(key=key, columns=columns), attempt=1, fencing_token=1)
    message.time_left.FromSeconds(_LEASE_SECONDS)
    return message


def applied(entries: Sequence[Any]) -> list[v1.SettleResult]:
    """Returns the results of settlements that were applied."""
    return [v1.SettleResult(outcome=v1.OUTCOME_APPLIED) for _ in entries]


def nothing() -> v1.ClaimBatchResponse:
    """Returns the answer to a claim that finds no item."""
    return v1.ClaimBatchResponse.FromString(_NEWER_HELD_BACK)
