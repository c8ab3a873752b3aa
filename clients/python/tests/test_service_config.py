"""The service configs in `deploy`, used as they are by grpcio without the library."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Protocol

import grpc
import pytest
from conftest import Broker

from lease_broker import v1

DEPLOY = Path(__file__).parents[3] / "deploy"
SERVICE = "leasebroker.v1.LeaseService"
METHODS: dict[str, tuple[Any, Any]] = {
    "ClaimBatch": (v1.ClaimBatchRequest, v1.ClaimBatchResponse),
    "Heartbeat": (v1.HeartbeatRequest, v1.HeartbeatResponse),
    "Complete": (v1.CompleteRequest, v1.CompleteResponse),
    "Fail": (v1.FailRequest, v1.FailResponse),
    "Release": (v1.ReleaseRequest, v1.ReleaseResponse),
    "ReleaseClaims": (v1.ReleaseClaimsRequest, v1.ReleaseClaimsResponse),
    "Enqueue": (v1.EnqueueRequest, v1.EnqueueResponse),
    "Wake": (v1.WakeRequest, v1.WakeResponse),
}
UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED


NOT_SERVING = b"\x08\x02"
"""The message grpc.health.v1.HealthCheckResponse of a server that must get no calls."""


class FailingServer:
    """A server that answers the first calls with errors and a pushback. `health`: its answer to health checks."""

    def __init__(self, errors: list[tuple[grpc.StatusCode, str]], health: bytes | None = None) -> None:
        self.arrivals: list[float] = []
        self._errors = errors
        self._closed = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        if health is not None:
            self._add_health(health)
        handlers = {
            method: grpc.unary_unary_rpc_method_handler(
                self._answer(response), request.FromString, response.SerializeToString
            )
            for method, (request, response) in METHODS.items()
        }
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def close(self) -> None:
        """Stops the server."""
        self._closed.set()
        self._server.stop(None).wait()

    def _add_health(self, response: bytes) -> None:
        def watch(_request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
            yield response
            self._closed.wait()

        handlers: dict[str, Any] = {"Watch": grpc.unary_stream_rpc_method_handler(watch)}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("grpc.health.v1.Health", handlers)])

    def _answer(self, response: Callable[[], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
        def answer(_request: Any, context: grpc.ServicerContext) -> Any:
            self.arrivals.append(time.monotonic())
            if len(self.arrivals) <= len(self._errors):
                code, pushback = self._errors[len(self.arrivals) - 1]
                context.set_trailing_metadata((("grpc-retry-pushback-ms", pushback),))
                context.abort(code, "scripted")
            return response()

        return answer


@pytest.fixture(params=["service-config.json", "service-config-balancer.json"])
def config(request: pytest.FixtureRequest) -> str:
    """The text of a service config."""
    return (DEPLOY / str(request.param)).read_text()


class Serve(Protocol):
    """Starts a server."""

    def __call__(self, errors: list[tuple[grpc.StatusCode, str]], health: bytes | None = None) -> FailingServer: ...


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers and closes them after the test."""
    servers: list[FailingServer] = []

    def start(errors: list[tuple[grpc.StatusCode, str]], health: bytes | None = None) -> FailingServer:
        servers.append(FailingServer(errors, health))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def call(config: str, address: str, method: str, request: Any | None = None, timeout: float = 60) -> Any:
    """Makes one call under a service config."""
    request_type, response_type = METHODS[method]
    with grpc.insecure_channel(address, [("grpc.service_config", config)]) as channel:
        rpc = channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=request_type.SerializeToString,
            response_deserializer=response_type.FromString,
        )
        return rpc(request or request_type(), timeout=timeout)


# UNAVAILABLE does not tell whether the items of an Enqueue were added.
NOT_RETRIED = ("Enqueue", "Wake")


@pytest.mark.parametrize("method", [method for method in METHODS if method not in NOT_RETRIED])
def test_call_is_retried(config: str, serve: Serve, method: str) -> None:
    server = serve([(UNAVAILABLE, "20"), (EXHAUSTED, "20")])
    call(config, server.address, method)
    assert len(server.arrivals) == 3


@pytest.mark.parametrize("method", NOT_RETRIED)
def test_call_is_not_retried(config: str, serve: Serve, method: str) -> None:
    server = serve([(UNAVAILABLE, "20")])
    with pytest.raises(grpc.RpcError):
        call(config, server.address, method)
    assert len(server.arrivals) == 1


def test_overloaded_enqueue_is_retried(config: str, serve: Serve) -> None:
    server = serve([(EXHAUSTED, "20"), (EXHAUSTED, "20")])
    call(config, server.address, "Enqueue")
    assert len(server.arrivals) == 3


def test_pushback_is_the_wait(config: str, serve: Serve) -> None:
    server = serve([(UNAVAILABLE, "700")])
    call(config, server.address, "ClaimBatch")
    first, second = server.arrivals
    assert second - first >= 0.69


def test_negative_pushback_ends_the_call(config: str, serve: Serve) -> None:
    server = serve([(UNAVAILABLE, "-1")])
    with pytest.raises(grpc.RpcError):
        call(config, server.address, "Complete")
    assert len(server.arrivals) == 1


def test_only_the_first_config_follows_the_health(serve: Serve) -> None:
    server = serve([], health=NOT_SERVING)
    with pytest.raises(grpc.RpcError) as failed:
        call((DEPLOY / "service-config.json").read_text(), server.address, "ClaimBatch", timeout=1)
    assert (failed.value.code(), server.arrivals) == (grpc.StatusCode.DEADLINE_EXCEEDED, [])
    call((DEPLOY / "service-config-balancer.json").read_text(), server.address, "ClaimBatch")
    assert len(server.arrivals) == 1


def test_broker_that_restarts_is_waited_for(config: str, broker: Broker) -> None:
    items = [v1.NewItem(columns={"payload": v1.ColumnValue(string_value="x")})]
    call(config, broker.address, "Enqueue", v1.EnqueueRequest(queue="work", items=items, request_id=str(uuid.uuid4())))
    broker.kill()
    starts = threading.Timer(1.0, broker.start)
    starts.start()
    request = v1.ClaimBatchRequest(queue="work", worker_id="python", max_items=1, request_id=str(uuid.uuid4()))
    leases = call(config, broker.address, "ClaimBatch", request).leases
    starts.join()
    assert len(leases) == 1
