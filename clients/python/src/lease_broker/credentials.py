"""How a program identifies itself to the broker, and the broker to it."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

TokenSource = str | Path | Callable[[], str]
"""A bearer token: the text itself, the path of a file that holds it, or a function that returns it."""

_TOKEN_FILE_INTERVAL = 10.0


@dataclass(frozen=True)
class Credentials:
    """The security of the connection. Make one with `plaintext` or `tls`."""

    channel: grpc.ChannelCredentials | None
    allow_plaintext: bool = False
    server_name: str | None = None


def plaintext(*, allow_plaintext: bool = False) -> Credentials:
    """No encryption. Addresses that are not on this machine are refused unless `allow_plaintext` is true."""
    return Credentials(None, allow_plaintext)


def tls(
    ca: bytes | None = None,
    cert: bytes | None = None,
    key: bytes | None = None,
    server_name: str | None = None,
) -> Credentials:
    """TLS. `ca`, `cert` and `key` are PEM texts.

    Without `ca` the system's authorities are trusted. With `cert` and `key` the worker identifies itself by them.
    `server_name` is the name in the broker's certificate if it is not that of the address.
    """
    return Credentials(grpc.ssl_channel_credentials(ca, key, cert), server_name=server_name)


def check_plaintext(addresses: list[str], credentials: Credentials) -> None:
    """Raises `ValueError` if an address that is not on this machine would be called without encryption."""
    if credentials.channel is not None or credentials.allow_plaintext:
        return
    for address in addresses:
        if not is_loopback(address):
            raise ValueError(
                f"{address} is not an address of this machine: pass credentials=tls(...), or "
                "plaintext(allow_plaintext=True) if the network is trusted"
            )


def is_loopback(address: str) -> bool:
    """Returns True if an address such as "127.0.0.1:50051" or "unix:/run/broker.sock" is on this machine."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition("/")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class TokenError(Exception):
    """The token cannot be read, or its function has raised an error."""


class Token:
    """A bearer token that can change while the program runs."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._text = ""
        self._read_at = float("-inf")

    def text(self, fresh: bool = False) -> str:
        """Returns the token. A file is read again every 10 s, or immediately if `fresh` is true.

        Raises `TokenError`.
        """
        try:
            return self._read(fresh)
        except Exception as error:
            raise TokenError(f"no token: {type(error).__name__}: {error}") from error

    def _read(self, fresh: bool) -> str:
        if callable(self._source):
            return self._source()
        if isinstance(self._source, str):
            return self._source
        now = time.monotonic()
        if fresh or now - self._read_at >= _TOKEN_FILE_INTERVAL:
            self._text = self._source.read_text().strip()
            self._read_at = now
        return self._text
