"""How a program identifies itself to the broker, and the broker to it."""

from __future__ import annotations

import os
import re
import ssl
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from lease_broker.addresses import is_loopback
from lease_broker.errors import error_text

TokenSource = str | Path | Callable[[], str]
"""A bearer token: the text itself, the `Path` of a file that holds it, or a function that returns it."""

FILE_INTERVAL = 10.0
"""The seconds after which files with tokens, certificates and keys are looked at again."""

Pem = bytes | str | Path
"""The bytes of a PEM text, or the path of a file with it."""


@dataclass(frozen=True)
class Credentials:
    """The security of the connection. Make one with `plaintext` or `tls`."""

    encrypted: bool
    allow_plaintext: bool = False
    server_name: str | None = None
    pems: tuple[Pem | None, ...] = ()
    """The authorities, the key and the certificate."""

    def versions(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Returns values that differ after a file was replaced. None: there is no file, or it is missing now."""
        return tuple(file_version(pem) for pem in self.pems)

    def read(self) -> grpc.ChannelCredentials | None:
        """Returns the credentials of a new connection.

        Raises `OSError` if a file cannot be read, and `ValueError` if a text is malformed, as that of a file that is
        half-written. gRPC would take it, and no connection would succeed.
        """
        if not self.encrypted:
            return None
        ca, key, cert = (pem if pem is None or isinstance(pem, bytes) else Path(pem).read_bytes() for pem in self.pems)
        for name, text in (("ca", ca), ("key", key), ("cert", cert)):
            if text is not None and not _is_pem(text):
                raise ValueError(f"credentials: {name} is no complete PEM text")
        _check_certificates(ca, *self.pems[1:])
        return grpc.ssl_channel_credentials(ca, key, cert)


def _is_pem(text: bytes) -> bool:
    """Returns True if a PEM text has blocks, each with its end."""
    begins, ends = (len(re.findall(b"-----%s [A-Z0-9 ]+-----" % word, text)) for word in (b"BEGIN", b"END"))
    return begins == ends > 0


def _check_certificates(ca: bytes | None, key: Pem | None, cert: Pem | None) -> None:
    """Raises `ValueError` if the authorities are malformed, or if a key in a file is not that of its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # gRPC accepts keys that OpenSSL finds too short.
    context.set_ciphers("ALL:@SECLEVEL=0")
    try:
        if ca is not None:
            context.load_verify_locations(cadata=ca.decode("ascii", "replace"))
        # This function takes no texts.
        if isinstance(key, (str, Path)) and isinstance(cert, (str, Path)):
            context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        raise ValueError(f"credentials: the certificates or the key are malformed: {error}") from error


def file_version(pem: Pem | None) -> tuple[int, int, int] | None:
    """Returns a value that differs after a file was replaced."""
    if pem is None or isinstance(pem, bytes):
        return None
    try:
        status = os.stat(pem)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def plaintext(*, allow_plaintext: bool = False) -> Credentials:
    """No encryption. Addresses that are not on this machine are refused unless `allow_plaintext` is true."""
    return Credentials(False, allow_plaintext)


def tls(
    ca: Pem | None = None, cert: Pem | None = None, key: Pem | None = None, server_name: str | None = None
) -> Credentials:
    """TLS. `ca`, `cert` and `key` are PEM texts as bytes, or paths of files, which are looked at again every 10 s.

    Without `ca` the system's authorities are trusted. With `cert` and `key` the worker identifies itself by them.
    While a file is missing or malformed, the connections stay as they are, and the log has one warning. `server_name`
    is the name in the broker's certificate if it is not that of the address. Raises `ValueError` if only one of `cert`
    and `key` is given or a text is malformed, and `OSError` if a file cannot be read.
    """
    if (cert is None) != (key is None):
        raise ValueError("tls: cert and key must be given together")
    credentials = Credentials(True, server_name=server_name, pems=(ca, key, cert))
    credentials.read()
    return credentials


def check_plaintext(addresses: list[str], credentials: Credentials) -> None:
    """Raises `ValueError` if an address that is not on this machine would be called without encryption."""
    if credentials.encrypted or credentials.allow_plaintext:
        return
    for address in addresses:
        if not is_loopback(address):
            raise ValueError(
                f"{address} is not an address of this machine: pass credentials=tls(...), or "
                "plaintext(allow_plaintext=True) if the network is trusted"
            )


class TokenError(Exception):
    """The token cannot be read, or its function has raised an error."""


class IllegalTokenError(TokenError, ValueError):
    """The token cannot be sent. The text of the error does not contain it."""


def check_token(text: object) -> str:
    """Returns a token without the white space around it. Raises `IllegalTokenError` if a header cannot hold it."""
    if not isinstance(text, str):
        raise IllegalTokenError(f"the token is {type(text).__name__} and not a str")
    text = text.strip()
    if not (text.isascii() and text.isprintable()):
        raise IllegalTokenError(
            "the token has a character that a header cannot hold: a control character, or one beyond ASCII"
        )
    return text


class Token:
    """A bearer token that can change while the program runs."""

    def __init__(self, source: TokenSource) -> None:
        """Raises `ValueError` if a text is the name of a file: the name would be sent as the token."""
        if isinstance(source, str):
            source = check_token(source)
            if os.path.exists(source):
                raise ValueError(f"token: {source} is a file: pass pathlib.Path({source!r})")
        elif not callable(source) and not isinstance(source, Path):
            raise TypeError(f"token is {type(source).__name__}; it must be a str, a Path or a function")
        self._source = source
        self.may_block = not isinstance(source, str)
        """True if a function, or a file system that does not answer, can keep `text` from returning."""
        self._text = ""
        self._read_at = float("-inf")

    def text(self, fresh: bool = False) -> str:
        """Returns the token. A file is read again every 10 s, or immediately if `fresh` is true.

        Raises `TokenError`, and `IllegalTokenError` if it cannot be sent.
        """
        place = f"the file {self._source}: " if isinstance(self._source, Path) else ""
        try:
            return self._read(fresh)
        except IllegalTokenError as error:
            raise IllegalTokenError(f"{place}{error}") from None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                # Ctrl-C, while a client in the main thread asks for the token.
                raise
            raise TokenError(f"no token: {place}{error_text(error)}") from error

    def _read(self, fresh: bool) -> str:
        if callable(self._source):
            return check_token(self._source())
        if isinstance(self._source, str):
            return self._source
        now = time.monotonic()
        if fresh or now - self._read_at >= FILE_INTERVAL:
            if not stat.S_ISREG(os.stat(self._source).st_mode):
                # The read of a pipe would wait for a program that writes.
                raise OSError("it is not a regular file")
            text = check_token(self._source.read_text())
            if not text:
                # A program that replaces the file empties it first.
                raise OSError("it is empty")
            self._text, self._read_at = text, now
        return self._text
