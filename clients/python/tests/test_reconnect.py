"""A broker that comes back while no call waits for it."""

from __future__ import annotations

import time

import grpc
import pytest
from conftest import Broker

from lease_broker import plaintext, v1
from lease_broker.calls import CallFailure, note_failure
from lease_broker.transport import Transport


def test_channel_reconnects_between_two_calls(broker: Broker) -> None:
    # Not a server of this process, whose own work would also drive the channel.
    transport = Transport(broker.address, plaintext())
    request = v1.WakeRequest(queue="work")
    transport.route().call("Wake", request, 10, [])
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
    # Longer than gRPC's backoff. No call is made meanwhile.
    time.sleep(3)
    transport.route().call("Wake", request, 5, [])
    transport.close()
