"""A client for producers: adds rows to queues."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta

from lease_broker import v1
from lease_broker.calls import Caller
from lease_broker.credentials import Credentials, Token, TokenSource, plaintext
from lease_broker.item import new_item
from lease_broker.transport import Transport
from lease_broker.values import Row

_MAX_ROWS_PER_CALL = 1_000


class Client:
    """A connection for programs that add work. Use it in a `with` statement, or call `close`."""

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        token: TokenSource | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Makes a client. `timeout` is the time in seconds for which a call is sent again while no broker answers."""
        self._transport = Transport(address, credentials or plaintext())
        self._caller = Caller(self._transport, None if token is None else Token(token))
        self._timeout = timeout

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._transport.close()

    def enqueue(self, queue: str, rows: Sequence[Row], delay: timedelta | float | None = None) -> list[str]:
        """Adds rows and returns their keys, in order. Rows beyond the first 1,000 are sent by further calls.

        Raises `LeaseBrokerError` if the broker refuses a row. The rows of that call are then not added; those of
        earlier calls are.
        """
        keys: list[str] = []
        for first in range(0, len(rows), _MAX_ROWS_PER_CALL):
            items = [new_item(row, delay) for row in rows[first : first + _MAX_ROWS_PER_CALL]]
            request = v1.EnqueueRequest(queue=queue, items=items)
            answer = self._caller.call("Enqueue", request, until=time.monotonic() + self._timeout)
            keys.extend(answer.message.keys)
        return keys
