"""A broker that comes back while no call waits for it."""

from __future__ import annotations

import time

import grpc
import pytest
from scripted import ScriptedServer, ok

from lease_broker import plaintext, v1
from lease_broker.calls import CallFailure, note_failure
from lease_broker.transport import Transport


def test_channel_reconnects_between_two_calls() -> None:
    server = ScriptedServer()
    address = server.address
    transport = Transport(address, plaintext())
    server.answer("Wake", ok(v1.WakeResponse()))
    transport.route().call("Wake", v1.WakeRequest(), 10, [])
    server.close()
    failure = CallFailure(grpc.StatusCode.UNAVAILABLE, None, "refused", None)
    for _ in range(5):
        with pytest.raises(grpc.RpcError):
            transport.route().call("Wake", v1.WakeRequest(), 5, [])
        note_failure(transport, transport.route(), failure)
        time.sleep(0.1)
    server = ScriptedServer(address=address)
    server.answer("Wake", ok(v1.WakeResponse()))
    # Longer than gRPC's backoff after five failures. No call is made meanwhile.
    time.sleep(6)
    transport.route().call("Wake", v1.WakeRequest(), 5, [])
    transport.close()
    server.close()
