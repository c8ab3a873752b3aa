"""A broker that comes back while no call waits for it."""

from __future__ import annotations

import threading
import time

import grpc
import pytest
from conftest import Broker
from test_edges import until

from lease_broker import plaintext, v1
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
