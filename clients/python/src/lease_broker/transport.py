"""The connections to the brokers: a channel for each broker, which calls use in turn."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import grpc

from lease_broker import v1
from lease_broker.addresses import is_loopback, list_addresses, split_address
from lease_broker.credentials import FILE_INTERVAL, Credentials, check_plaintext

SERVICE = "leasebroker.v1.LeaseService"
VERSION = "0.2.0"

# The library sends requests again itself (`calls`), so gRPC does not. A short reconnect backoff brings an idle worker
# back soon after the broker. Answers have no limit here, because a single row may be larger than gRPC's default.
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Also the time that a connection may take.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # The address of a name can change with each restart of its broker.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # This is the limit that gRPC 1.71 obeys for the answer to a ping. Its default is 60 s.
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", f"lease-broker-python/{VERSION}"),
]
# Seconds for which a broker gets no calls if there are others: after an error, and after a call without an answer. The
# connection of a process that hangs stays open, so only calls show that it works again.
_PASS_OVER, _PASS_OVER_SILENT = 1.0, 30.0
_RESOLVE_INTERVAL = 5.0
# Seconds after which gRPC's thread for subscribers has ended, also on a busy machine.
_SUBSCRIBER_ENDS = 5.0
# Longer than any call.
_CLOSE_AFTER = 90.0

_REQUESTS: dict[str, tuple[type[Any], type[Any]]] = {
    rpc: (getattr(v1, f"{rpc}Request"), getattr(v1, f"{rpc}Response"))
    for rpc in ("ClaimBatch", "Heartbeat", "Complete", "Fail", "Release", "ReleaseClaims", "Wake", "Enqueue")
}


class Broker:
    """The channel of a broker."""

    def __init__(
        self, target: str, options: list[tuple[str, Any]], credentials: grpc.ChannelCredentials | None
    ) -> None:
        self.target = target
        self.free_at = 0.0
        """The moment from which it gets calls again."""
        self.fails = False
        """True if its last call has failed."""
        self._connects = False
        if credentials is None:
            self.channel = grpc.insecure_channel(target, options)
        else:
            self.channel = grpc.secure_channel(target, credentials, options)
        self._methods = {
            rpc: self.channel.unary_unary(f"/{SERVICE}/{rpc}", request.SerializeToString, response.FromString)
            for rpc, (request, response) in _REQUESTS.items()
        }

    def connect(self, wanted: bool) -> None:
        """Lets the channel connect between calls. Without calls or a subscriber gRPC makes no progress."""
        if wanted != self._connects:
            self._connects = wanted
            if wanted:
                self.channel.subscribe(self._on_state, try_to_connect=True)
            else:
                self.channel.unsubscribe(self._on_state)

    def close(self) -> None:
        """Ends all calls and closes the connection."""
        self.connect(False)
        self._wait_for_subscriber()
        self.channel.close()

    def _wait_for_subscriber(self) -> None:
        """Waits for the end of gRPC's thread for subscribers. On a closed channel it dies with a traceback."""
        # The thread goes on for a while after the last subscriber. It looks every 0.2 s, and on a busy machine later.
        # No public method tells about it.
        state = getattr(self.channel, "_connectivity_state", None)
        until = time.monotonic() + _SUBSCRIBER_ENDS
        while getattr(state, "polling", False) and time.monotonic() < until:
            time.sleep(0.02)

    def _on_state(self, _state: grpc.ChannelConnectivity) -> None:
        """The next call shows whether the broker answers."""

    def start(self, rpc: str, request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
        """Sends a request and returns its future."""
        return self._methods[rpc].future(request, timeout=timeout, metadata=tuple(metadata))

    def call(self, rpc: str, request: Any, timeout: float, metadata: list[tuple[str, str]]) -> Any:
        """Sends a request and returns its answer. It costs less than `start`, because no other thread is involved."""
        return self._methods[rpc](request, timeout=timeout, metadata=tuple(metadata))


class ClosedError(Exception):
    """The program has closed the connection."""


class Transport:
    """Channels to one broker or to several. A child process that was forked later cannot use them."""

    def __init__(
        self, address: str | Sequence[str], credentials: Credentials, logger: logging.Logger | None = None
    ) -> None:
        self._logger = logger or logging.getLogger("lease_broker")
        addresses = list_addresses(address)
        check_plaintext(addresses, credentials)
        self._credentials = credentials
        self._name = addresses[0].removeprefix("dns:///") if addresses[0].startswith("dns:///") else None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._next = 0
        self._old: list[tuple[float, Broker]] = []
        """Brokers that get no more calls, with the moment from which no call needs them."""
        self._versions = self._refused_versions = credentials.versions()
        self._looked_at = time.monotonic()
        self._resolved_at = 0.0
        self._resolution: concurrent.futures.Future[None] = concurrent.futures.Future()
        """The last look for the addresses of the name."""
        self._channel_credentials = credentials.read()
        self._brokers = [] if self._name else [self._connect(address) for address in addresses]
        if self._name:
            self._start_to_resolve()

    def _connect(self, target: str) -> Broker:
        options = list(_OPTIONS)
        if is_loopback(target):
            # A proxy of the environment is for other machines. It would read the rows.
            options.append(("grpc.enable_http_proxy", 0))
        # The certificate of a broker has the name and not the number that was found for it.
        name = self._credentials.server_name or (split_address(self._name)[0] if self._name else None)
        if self._name:
            options.append(("grpc.default_authority", self._name))
        if name is not None and self._credentials.encrypted:
            options.append(("grpc.ssl_target_name_override", name))
        return Broker(target, options, self._channel_credentials)

    def route(self, timeout: float = 0.0) -> Broker:
        """Returns the broker for the next call. Raises `ClosedError`, or `OSError` if its name is unknown.

        If no address of the name was found yet, waits for it up to `timeout` seconds. The resolver may hang.
        """
        if self._closed:
            raise ClosedError
        self._check_process()
        now = time.monotonic()
        if now - self._looked_at >= FILE_INTERVAL:
            self._look_at_files(now)
        if not self._brokers:
            self._wait_for_addresses(timeout)
        with self._lock:
            brokers = self._brokers
            is_due = now - self._resolved_at >= _RESOLVE_INTERVAL and self._resolution.done()
            if self._name and is_due and any(b.free_at > 0 for b in brokers):
                self._start_to_resolve()
            in_turn = [(self._next + step) % len(brokers) for step in range(len(brokers))]
            index = next((index for index in in_turn if brokers[index].free_at <= now), in_turn[0])
            self._next = index + 1
            return brokers[index]

    @property
    def is_of_this_process(self) -> bool:
        """False in a child, where gRPC has none of its threads, and would wait for them."""
        return os.getpid() == self._process

    def _check_process(self) -> None:
        if not self.is_of_this_process:
            raise RuntimeError("the process has forked since the connection was made: make a new one in the child")

    def note(self, broker: Broker, *, failed: bool, silent: bool = False) -> bool:
        """Notes the end of a call. `failed`: the next call needs another broker. `silent`: there was no answer in time.

        Returns True unless the last calls to all brokers have failed.

        A connection can be dead without an error, for example after a firewall has forgotten it. gRPC needs half a
        minute to notice, so a new one is made.
        """
        with self._lock:
            if not self._closed:
                broker.connect(failed and not silent)
        broker.fails = failed
        if not failed:
            broker.free_at = 0.0
            return True
        now = time.monotonic()
        broker.free_at = now + (_PASS_OVER_SILENT if silent else _PASS_OVER)
        with self._lock:
            if all(each.free_at > now for each in self._brokers):
                # Each has failed. One that was silent may have come back, as well as one that refuses may.
                for each in self._brokers:
                    each.free_at = each.free_at if each is broker else now
            others_answer = not all(each.fails for each in self._brokers)
        if silent:
            self._replace(broker)
        return others_answer

    def _replace(self, *old: Broker) -> None:
        """Makes new channels in the place of others. Calls that run keep the old ones."""
        with self._lock:
            for broker in old:
                if broker in self._brokers and not self._closed:
                    new = self._connect(broker.target)
                    new.free_at, new.fails = broker.free_at, broker.fails
                    self._brokers[self._brokers.index(broker)] = new
            self._retire(old)

    def _retire(self, brokers: Iterable[Broker]) -> None:
        """Closes channels when no call can have them any more."""
        self._old += [(time.monotonic() + _CLOSE_AFTER, broker) for broker in brokers]

    def _look_at_files(self, now: float) -> None:
        """Reads certificates again that have changed, and closes old channels."""
        self._looked_at = now
        with self._lock:
            ended = [broker for close_at, broker in self._old if close_at <= now]
            self._old = [(close_at, broker) for close_at, broker in self._old if close_at > now]
        for broker in ended:
            broker.close()
        versions = self._credentials.versions()
        if versions == self._versions:
            return
        try:
            channel_credentials = self._credentials.read()
        except (OSError, ValueError) as error:
            # The files are being replaced.
            if versions != self._refused_versions:
                self._logger.warning("the changed files of the credentials are not used: %s", error)
            self._refused_versions = versions
            return
        if self._credentials.versions() != versions:
            # They were replaced while they were read.
            return
        self._channel_credentials = channel_credentials
        self._versions = self._refused_versions = versions
        self._replace(*self._brokers)

    def _wait_for_addresses(self, timeout: float) -> None:
        """Waits for the first addresses of the name. Raises `OSError` if it is unknown, or not resolved in time."""
        with self._lock:
            if self._resolution.done() and not self._brokers:
                self._start_to_resolve()
            resolution = self._resolution
        try:
            resolution.result(timeout)
        except concurrent.futures.TimeoutError:
            raise OSError(f"the name of {self._name} is not resolved yet") from None

    def _start_to_resolve(self) -> None:
        """Looks for the addresses of the name in a thread. If that fails, those that were found before stay."""
        self._resolved_at = time.monotonic()
        resolution: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._resolution = resolution

        def resolve() -> None:
            try:
                self._resolve()
            except BaseException as error:
                resolution.set_exception(error)
            else:
                resolution.set_result(None)

        threading.Thread(target=resolve, name="lease-broker-resolve", daemon=True).start()

    def _resolve(self) -> None:
        host, port = split_address(self._name or "")
        found = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
        targets = sorted(
            f"ipv6:[{number}]:{port}" if ":" in str(number) else f"ipv4:{number}:{port}" for number in found
        )
        with self._lock:
            if self._closed:
                return
            known = {broker.target: broker for broker in self._brokers}
            self._brokers = [known.pop(target) if target in known else self._connect(target) for target in targets]
            for broker in known.values():
                broker.connect(False)
            self._retire(known.values())

    def close(self) -> None:
        """Ends all calls and closes the connections."""
        self._check_process()
        with self._lock:
            self._closed = True
            brokers = self._brokers + [broker for _, broker in self._old]
        for broker in brokers:
            broker.close()
