"""The connection to the brokers: channel options, and one method for each rpc."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from lease_broker import v1
from lease_broker.credentials import Credentials, check_plaintext

SERVICE = "leasebroker.v1.LeaseService"
VERSION = "0.2.0"

# The library sends requests again itself (`calls`), so gRPC does not. A short reconnect backoff brings an idle worker
# back soon after the broker. Answers have no limit here, because a single row may be larger than gRPC's default.
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # This is the limit that gRPC 1.71 obeys for the answer to a ping. Its default is 60 s.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", f"lease-broker-python/{VERSION}"),
    ("grpc.service_config", '{"loadBalancingConfig": [{"round_robin": {}}]}'),
]

_REQUESTS: dict[str, tuple[type[Any], type[Any]]] = {
    "ClaimBatch": (v1.ClaimBatchRequest, v1.ClaimBatchResponse),
    "Heartbeat": (v1.HeartbeatRequest, v1.HeartbeatResponse),
    "Complete": (v1.CompleteRequest, v1.CompleteResponse),
    "Fail": (v1.FailRequest, v1.FailResponse),
    "Release": (v1.ReleaseRequest, v1.ReleaseResponse),
    "ReleaseClaims": (v1.ReleaseClaimsRequest, v1.ReleaseClaimsResponse),
    "Wake": (v1.WakeRequest, v1.WakeResponse),
    "Enqueue": (v1.EnqueueRequest, v1.EnqueueResponse),
}


class Transport:
    """A channel to one broker or to several. A child process that was forked later cannot use it."""

    def __init__(self, address: str | Sequence[str], credentials: Credentials) -> None:
        addresses = [address] if isinstance(address, str) else list(address)
        if not addresses:
            raise ValueError("address: the list is empty")
        check_plaintext(addresses, credentials)
        self._credentials = credentials
        self._target, self._options = addresses[0], list(_OPTIONS)
        if len(addresses) > 1:
            self._target = target_of_list(addresses)
            # Without it gRPC sends the whole list as the authority, and servers refuse that.
            self._options.append(("grpc.default_authority", addresses[0]))
        if credentials.server_name is not None:
            self._options.append(("grpc.ssl_target_name_override", credentials.server_name))
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._on_change: Callable[[bool], None] | None = None
        self._ready = self._closed = False
        self._last_channel: grpc.Channel | None = None
        self._channel, self._methods = self._connect()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise RuntimeError("the process has forked since the connection was made: make a new one in the child")

    def _connect(self) -> tuple[grpc.Channel, dict[str, Any]]:
        if self._credentials.channel is None:
            channel = grpc.insecure_channel(self._target, self._options)
        else:
            channel = grpc.secure_channel(self._target, self._credentials.channel, self._options)
        methods: dict[str, Any] = {
            rpc: channel.unary_unary(
                f"/{SERVICE}/{rpc}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for rpc, (request, response) in _REQUESTS.items()
        }
        return channel, methods

    def start(self, rpc: str, request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
        """Sends a request and returns its future."""
        self._check_process()
        return self._methods[rpc].future(request, timeout=timeout, metadata=tuple(metadata))

    def call(self, rpc: str, request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
        """Sends a request and returns its answer. It costs less than `start`, because no other thread is involved."""
        self._check_process()
        return self._methods[rpc](request, timeout=timeout, metadata=tuple(metadata))

    def reconnect(self) -> None:
        """Makes new connections for further calls, because a call got no answer in time.

        A connection can be dead without an error, for example after a firewall has forgotten it. gRPC needs half a
        minute to notice. Running calls keep the old connections until the next `reconnect`.
        """
        with self._lock:
            if self._closed:
                return
            if self._last_channel is not None:
                self._last_channel.close()
            self._last_channel = self._channel
            self._last_channel.unsubscribe(self._on_state)
            self._channel, self._methods = self._connect()
            if self._on_change is not None:
                self._note_ready(False)
                self._channel.subscribe(self._on_state)

    def watch(self, on_change: Callable[[bool], None]) -> None:
        """Calls `on_change` with True when a connection to a broker is ready, and with False when the last one ends."""
        with self._lock:
            self._on_change = on_change
            self._channel.subscribe(self._on_state)

    def _on_state(self, state: grpc.ChannelConnectivity) -> None:
        with self._lock:
            self._note_ready(state is grpc.ChannelConnectivity.READY)

    def _note_ready(self, ready: bool) -> None:
        if ready != self._ready and not self._closed and self._on_change is not None:
            self._ready = ready
            self._on_change(ready)

    def close(self) -> None:
        """Ends all calls and closes the connections."""
        with self._lock:
            self._closed = True
            channels = [channel for channel in (self._channel, self._last_channel) if channel is not None]
        for channel in channels:
            channel.close()


def target_of_list(addresses: Sequence[str]) -> str:
    """Returns the target for a list of addresses. gRPC takes only numbers in a list, so names are looked up now.

    Raises `ValueError` if an address has no port, and `OSError` if a name is unknown.
    """
    numbers: dict[str, None] = {}
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"{address!r} is not of the form host:port")
        for family, _, _, _, found in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
            # gRPC has no target with both families. Brokers that have a name usually have an address of version 4.
            if family == socket.AF_INET:
                numbers[":".join((str(found[0]), port))] = None
    if not numbers:
        raise ValueError(f"{addresses}: a list needs addresses of IP version 4; use dns:///name:port for version 6")
    return "ipv4:" + ",".join(numbers)
