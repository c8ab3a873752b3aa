"""The connection to the brokers: channel options, and one method for each rpc."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from lease_broker import v1
from lease_broker.credentials import Credentials, check_plaintext

SERVICE = "leasebroker.v1.LeaseBrokerService"
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
    "CancelLeases": (v1.CancelLeasesRequest, v1.CancelLeasesResponse),
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
        options = list(_OPTIONS)
        target = addresses[0]
        if len(addresses) > 1:
            # Without an authority of its own gRPC would send the whole list as one, and servers refuse that.
            target = "ipv4:" + ",".join(addresses)
            options.append(("grpc.default_authority", addresses[0]))
        if credentials.server_name is not None:
            options.append(("grpc.ssl_target_name_override", credentials.server_name))
        if credentials.channel is None:
            self.channel = grpc.insecure_channel(target, options)
        else:
            self.channel = grpc.secure_channel(target, credentials.channel, options)
        self._process = os.getpid()
        self._methods = {
            rpc: self.channel.unary_unary(
                f"/{SERVICE}/{rpc}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            for rpc, (request, response) in _REQUESTS.items()
        }

    def start(self, rpc: str, request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
        """Sends a request and returns its future."""
        if os.getpid() != self._process:
            raise RuntimeError("the process has forked since the connection was made: make a new one in the child")
        return self._methods[rpc].future(request, timeout=timeout, metadata=tuple(metadata))

    def watch(self, on_change: Callable[[bool], None]) -> None:
        """Calls `on_change` with True when a connection to a broker is ready, and with False when the last one ends."""
        ready = False

        def on_state(state: grpc.ChannelConnectivity) -> None:
            nonlocal ready
            if ready != (state is grpc.ChannelConnectivity.READY):
                ready = not ready
                on_change(ready)

        self.channel.subscribe(on_state)

    def close(self) -> None:
        """Ends all calls and closes the connection."""
        self.channel.close()
