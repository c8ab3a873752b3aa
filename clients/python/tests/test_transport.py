"""The channels of brokers."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import grpc._channel
import pytest

from lease_broker.transport import Broker


@pytest.mark.parametrize("still_connects", [True, False])
def test_closed_channel_waits_for_the_thread_of_grpc(monkeypatch: pytest.MonkeyPatch, still_connects: bool) -> None:
    def late() -> float:
        time.sleep(0.5)
        return time.time()

    # The thread asks for the time before it looks at its channel, and is late, as on a busy machine.
    monkeypatch.setattr(grpc._channel, "time", SimpleNamespace(time=late))
    before = set(threading.enumerate())
    broker = Broker("127.0.0.1:1", [], None)
    broker.connect(True)
    threads = set(threading.enumerate()) - before
    # A call that succeeds ends the subscription, and the thread goes on for a moment.
    broker.connect(still_connects)
    broker.close()
    # An exception of a thread fails the test.
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
