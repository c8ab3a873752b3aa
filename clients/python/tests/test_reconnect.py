"""Brokers that are away, and that come back while no call waits for them."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator

import grpc
import pytest
from conftest import Broker
from test_edges import until

from lease_broker import Client, LeaseBrokerError, Worker, plaintext, v1
from lease_broker.calls import CallFailure, note_failure
from lease_broker.transport import Transport


def test_channel_reconnects_between_two_calls(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[grpc.ChannelConnectivity] = []
    monkeypatch.setattr("lease_broker.transport.Broker._on_state", lambda _broker, state: states.append(state))
    # Not a server of this process, whose own work would also drive the channel.
    transport = Transport(broker.address, plaintext())
    request = v1.WakeRequest(queue="work")
    transport.route().call("Wake", request, 60, [])
    broker.kill()
    failure = CallFailure(grpc.StatusCode.UNAVAILABLE, None, "refused", None)
    # As the retries of a settlement do.
    for pause in (0.06, 0.14, 0.3, 0.55, 0.0):
        route = transport.route()
        with pytest.raises(grpc.RpcError):
            route.call("Wake", request, 5, [])
        note_failure(transport, route, failure)
        time.sleep(pause)
    broker.start()
    # No call is made meanwhile.
    until(lambda: states[-1:] == [grpc.ChannelConnectivity.READY])
    transport.route().call("Wake", request, 60, [])
    transport.close()


def test_close_while_a_channel_reconnects_ends_no_thread_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[object] = []
    before = set(threading.enumerate())
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_value))
    transport = Transport("127.0.0.1:1", plaintext())
    transport.note(transport.route(), failed=True)
    pollers = set(threading.enumerate()) - before
    transport.close()
    for poller in pollers:
        poller.join(60)
    assert errors == []


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{port.getsockname()[1]}"


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry waits for longer than a test."""
    monkeypatch.setattr("lease_broker.calls._MIN_WAIT", 600.0)


@pytest.mark.usefixtures("one_attempt")
def test_call_that_reached_no_broker_has_changed_nothing(refusing: str) -> None:
    with Client(refusing) as client, pytest.raises(LeaseBrokerError) as failed:
        client.enqueue("work", [{}])
    assert (failed.value.code, failed.value.applied, failed.value.temporary) == ("UNAVAILABLE", "no", True)


@pytest.mark.usefixtures("one_attempt")
def test_worker_that_reached_no_broker_has_no_claim_to_release(refusing: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    worker = Worker(refusing, "work", print)
    worker.start()
    until(lambda: worker.counters().get("retry"))
    worker.stop()
    texts = [record.getMessage() for record in caplog.records]
    assert [text for text in texts if not text.startswith("calls to the broker")] == []
