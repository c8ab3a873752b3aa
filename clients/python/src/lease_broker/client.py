"""A client for programs that add items."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from lease_broker import v1
from lease_broker.calls import Abort, Caller, check_count
from lease_broker.credentials import Credentials, Token, TokenSource, plaintext
from lease_broker.errors import LeaseBrokerError, check_seconds, seconds
from lease_broker.health import CallHealth
from lease_broker.in_thread import in_thread
from lease_broker.item import new_item
from lease_broker.tracing import current_trace_parent
from lease_broker.transport import Transport
from lease_broker.values import Row

T = TypeVar("T")

_MAX_PER_CALL = 1_000
_MAX_CALL_BYTES = 3 * 1024 * 1024
# A value counts as at least this size, because a call has at most 65,536 values.
_MIN_VALUE_BYTES = _MAX_CALL_BYTES // 65_536


class Client:
    """A connection to the brokers without a worker. Use it in a `with` statement, or call `close`."""

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        token: TokenSource | None = None,
        timeout: timedelta | float = 60.0,
    ) -> None:
        """Makes a client. `timeout` is the time for which a call is sent again while no broker answers.

        Raises `ValueError` for an option out of its range.
        """
        self._timeout = check_seconds("timeout", seconds(timeout))
        self._transport = Transport(address, credentials or plaintext())
        self._health = CallHealth(address, logging.getLogger("lease_broker"))
        self._caller = Caller(self._transport, None if token is None else Token(token), health=self._health)
        self._abort: Abort | None = None
        # Otherwise the connections of a client that was not closed would go on.
        weakref.finalize(self, _close, self._transport).atexit = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._transport.close()

    def enqueue(
        self, queue: str, rows: Iterable[Row], delay: timedelta | float | None = None, trace_parent: str | None = None
    ) -> list[str]:
        """Adds rows and returns their keys, in order. Rows beyond 1,000, or beyond 3 MiB, are sent by further calls.

        Each call carries a request id, so that a retry does not add its rows twice. The items continue the W3C trace
        context `trace_parent`, without it that of OpenTelemetry's current span. Reads all rows first, and adds none if
        the value of one cannot be sent. Raises `LeaseBrokerError` if the broker refuses a row. The rows of that call
        are then not added. The error has the `keys` of the rows that earlier calls have added.
        """
        trace_parent = current_trace_parent() if trace_parent is None else trace_parent
        items = [new_item(row, delay, trace_parent) for row in rows]
        keys: list[str] = []
        for part in _calls(items):
            try:
                keys += self._enqueue(queue, part)
            except LeaseBrokerError as error:
                error._after_rows(keys)
                raise
        return keys

    def _enqueue(self, queue: str, items: list[v1.NewItem]) -> list[str]:
        request = v1.EnqueueRequest(queue=queue, items=items, request_id=str(uuid.uuid4()))
        results = self._call("Enqueue", request).results
        check_count("Enqueue", results, items)
        return [result.key for result in results]

    def wake(self, queue: str) -> None:
        """Makes waiting claims look for items now. Call it after rows were inserted by SQL."""
        self._call("Wake", v1.WakeRequest(queue=queue))

    def _call(self, rpc: str, request: Any) -> Any:
        try:
            return self._caller.call(rpc, request, until=time.monotonic() + self._timeout, abort=self._abort).message
        except BaseException:
            # No call of this thread waits for the broker any more.
            self._health.forget()
            raise


def _close(transport: Transport) -> None:
    """Closes connections in a thread, because that can take a moment."""
    if transport.is_of_this_process:
        threading.Thread(target=transport.close, name="lease-broker-close", daemon=True).start()


def _calls(items: list[v1.NewItem]) -> Iterator[list[v1.NewItem]]:
    """Splits items into those of single calls."""
    part: list[v1.NewItem] = []
    size = 0
    for item in items:
        item_size = max(item.ByteSize(), _MIN_VALUE_BYTES * len(item.columns))
        size += item_size
        if part and (len(part) == _MAX_PER_CALL or size > _MAX_CALL_BYTES):
            yield part
            part, size = [], item_size
        part.append(item)
    if part:
        yield part


class AsyncClient:
    """A `Client` for programs with an event loop. Its calls run in threads of their own and do not block the loop.

    If the task that waits for a call is cancelled, the call ends. Its rows may have been added by then, but are not
    added later.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        credentials: Credentials | None = None,
        token: TokenSource | None = None,
        timeout: timedelta | float = 60.0,
    ) -> None:
        """Makes a client with the options of `Client`."""
        self._client = Client(address, credentials=credentials, token=token, timeout=timeout)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await in_thread(self._client.close)

    async def enqueue(
        self, queue: str, rows: Iterable[Row], delay: timedelta | float | None = None, trace_parent: str | None = None
    ) -> list[str]:
        """Adds rows and returns their keys, as `Client.enqueue` does."""
        return await self._run(lambda client: client.enqueue(queue, rows, delay, trace_parent))

    async def wake(self, queue: str) -> None:
        """Makes waiting claims look for items now."""
        await self._run(lambda client: client.wake(queue))

    async def _run(self, function: Callable[[Client], T]) -> T:
        """Calls a function in a thread, with a client whose calls end if the task is cancelled."""
        client = copy.copy(self._client)
        client._abort = abort = Abort()
        try:
            return await in_thread(lambda: function(client))
        except asyncio.CancelledError:
            abort.cancel()
            raise
