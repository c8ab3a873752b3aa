"""The channels of brokers."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import grpc._channel
import pytest
from scripted import ScriptedServer, ok

from lease_broker import Client, LeaseBrokerError, Worker, plaintext, v1
from lease_broker.calls import Caller
from lease_broker.transport import Broker, Transport


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that answers as the test says."""
    server = ScriptedServer()
    yield server
    server.close()


@pytest.mark.parametrize(
    ("address", "named", "text"),
    [
        ("127.0.0.1", "127.0.0.1", "is not of the form host:port, such as 127.0.0.1:50051"),
        ("localhost", "localhost", "is not of the form host:port"),
        ("", "", "is not of the form host:port"),
        ("http://127.0.0.1:7443", "http://127.0.0.1:7443", "leave out http://"),
        ("grpc://127.0.0.1:7443", "grpc://127.0.0.1:7443", "leave out grpc://"),
        ("dns://localhost:7443", "dns://localhost:7443", "a name to resolve is dns:///host:port"),
        ("dns:///localhost", "dns:///localhost", "is not of the form host:port"),
        ("127.0.0.1:99999", "127.0.0.1:99999", "a port is 1 to 65535"),
        ("127.0.0.1:0", "127.0.0.1:0", "a port is 1 to 65535"),
        ("127.0.0.1:7443/", "127.0.0.1:7443/", "is not of the form host:port"),
        (" 127.0.0.1:7443", " 127.0.0.1:7443", "is not of the form host:port"),
        ("127.0.0.1:7443,127.0.0.1:7444", "127.0.0.1:7443,127.0.0.1:7444", "pass a list for several"),
        (["127.0.0.1:7443", "http://127.0.0.1:7444"], "http://127.0.0.1:7444", "leave out http://"),
        (["127.0.0.1:7443", "127.0.0.1"], "127.0.0.1", "is not of the form host:port"),
        (["127.0.0.1:7443", "dns:///localhost:7444"], "dns:///localhost:7444", "it must be alone"),
        (["127.0.0.1:7443", "unix:/run/broker.sock"], "unix:/run/broker.sock", "it must be alone"),
        (b"127.0.0.1:7443", b"127.0.0.1:7443", "it must be a str or a list of them"),
        ([7443], 7443, "it must be a str or a list of them"),
    ],
)
@pytest.mark.parametrize("kind", ["worker", "client"])
def test_malformed_address_is_refused(address: Any, named: object, text: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"address {named!r}: .*{text}".replace("[", r"\[")):
        Worker(address, "work") if kind == "worker" else Client(address)


@pytest.mark.parametrize(
    "address",
    ["LOCALHOST:1", "[::1]:1", "unix:/run/broker.sock", "dns:///localhost:1", ["127.0.0.1:1", "[::1]:1"]],
)
def test_address_is_accepted(address: str | list[str]) -> None:
    Worker(address, "work")
    Transport(address, plaintext()).close()


def test_silent_broker_is_called_again_when_the_other_one_fails() -> None:
    transport = Transport(["127.0.0.1:1", "127.0.0.1:2"], plaintext())
    silent, refusing = transport.route(), transport.route()
    transport.note(silent, failed=True, silent=True)
    assert transport.route() is refusing
    transport.note(refusing, failed=True)
    # It is no longer passed over: the wait before a retry can be longer.
    refusing.free_at = time.monotonic()
    assert transport.route().target == silent.target
    transport.close()


def test_address_that_has_left_the_name_answers_calls_that_have_it(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer("Wake", ok(v1.WakeResponse()))
    port = server.address.rpartition(":")[2]
    numbers = ["127.0.0.1", "127.0.0.9"]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **_options: [(0, 0, 0, "", (numbers.pop(0), port))])
    transport = Transport(f"dns:///broker.example:{port}", plaintext(allow_plaintext=True))
    broker = transport.route(60)
    transport._resolve()
    assert transport.route() is not broker
    broker.call("Wake", v1.WakeRequest(queue="work"), 10, [])
    transport.close()


def test_name_can_have_the_address_of_an_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", (number, 1)) for number in ("fe80::1%br-9f3c", "10.0.0.5")]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **_options: found)
    transport = Transport("dns:///broker.example:1", plaintext(allow_plaintext=True))
    targets = {transport.route(60).target, transport.route().target}
    assert targets == {"ipv4:10.0.0.5:1", "ipv6:[fe80::1%br-9f3c]:1"}
    transport.close()


def test_resolver_that_hangs_holds_up_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def resolve(*_: object, **_options: object) -> Any:
        released.wait(60)
        return [(0, 0, 0, "", ("127.0.0.1", 1))]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    transport = Transport("dns:///broker.example:1", plaintext(allow_plaintext=True))
    begun = time.monotonic()
    for timeout in (0.0, 0.1):
        with pytest.raises(OSError, match="is not resolved yet"):
            transport.route(timeout)
    assert time.monotonic() - begun < 30
    released.set()
    assert transport.route(60).target == "ipv4:127.0.0.1:1"
    transport.close()


def test_client_that_was_not_closed_ends_its_connections() -> None:
    closed = threading.Event()
    client = Client("127.0.0.1:1", timeout=0.3)
    transport = client._transport
    transport._brokers[0].close = closed.set  # type: ignore[method-assign]
    with pytest.raises(LeaseBrokerError):
        client.wake("work")
    del client
    gc.collect()
    assert closed.wait(60)


def test_dead_broker_beside_one_that_answers_is_not_an_outage(server: ScriptedServer) -> None:
    server.answer("ClaimBatch", ok(v1.ClaimBatchResponse()))
    server.answer("ReleaseClaims", ok(v1.ReleaseClaimsResponse()))
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{refusing.getsockname()[1]}", server.address]
        worker = Worker(addresses, "work", print, wait=0)
        worker.start()
        limit = time.monotonic() + 60
        while worker.counters().get("retry", 0) < 2:
            assert time.monotonic() < limit
            time.sleep(0.01)
        counters = worker.counters()
        worker.stop()
    assert (counters["connected"], counters.get("disconnected")) == (1, None)


@pytest.mark.parametrize("form", ["{}", "dns:///{}"])
def test_broker_on_this_machine_is_called_without_a_proxy(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    server.answer("Wake", ok(v1.WakeResponse()))
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("grpc_proxy", "https_proxy", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with Client(form.format(server.address), timeout=10) as client:
            client.wake("work")
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()


def test_closed_channel_is_an_outage(server: ScriptedServer) -> None:
    server.answer("Wake", ok(v1.WakeResponse()))
    transport = Transport(server.address, plaintext())
    broker = transport.route()
    events: list[dict[str, Any]] = []

    def replace(**event: Any) -> None:
        events.append(event)
        transport._replace(broker)

    broker.channel.close()
    Caller(transport, on_retry=replace).call("Wake", v1.WakeRequest(queue="work"))
    assert [event["code"] for event in events] == ["UNAVAILABLE"]
    transport.close()


@pytest.mark.parametrize("address", ["127.0.0.1:1", ["127.0.0.1:1", "127.0.0.1:2"]])
def test_closed_client_ends_its_calls(address: str | list[str]) -> None:
    client = Client(address)
    client.close()
    with pytest.raises(LeaseBrokerError, match="FAILED_PRECONDITION: the client is closed") as raised:
        client.wake("work")
    assert (raised.value.applied, raised.value.temporary) == ("no", False)


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
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
