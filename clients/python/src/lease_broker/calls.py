"""The one place where requests are sent again.

gRPC's own retries are off: they stop after five attempts, which take about three seconds, while a settlement is worth
sending until its lease ends, and they can be neither observed nor stopped.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from lease_broker import v1
from lease_broker.credentials import IllegalTokenError, Token, TokenError
from lease_broker.errors import Applied, LeaseBrokerError
from lease_broker.health import CallHealth
from lease_broker.transport import Broker, ClosedError, Transport
from lease_broker.values import duration_seconds

_DOMAIN = "leasebroker"
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
_MIN_WAIT, _MAX_WAIT = 0.1, 5.0
_PAUSE_STEP = 0.1
# The seconds for which an attempt waits for the addresses of a name. They are looked for until they are found.
_RESOLVE_SECONDS = 2.0
# The text of gRPC for an answer with the HTTP status 413, Content Too Large.
_STATUS_413 = re.compile(r"\bhttp2? header with status: 413\b", re.IGNORECASE)
# The text of gRPC for a call without a connection, which was not sent. A connection that breaks later has another.
_NOT_CONNECTED = "failed to connect to all addresses"
ATTEMPT_TIMEOUT = 10.0
"""The seconds after which an attempt without a wait of its own is given up."""


@dataclass(frozen=True)
class CallFailure:
    """The status of an attempt that failed."""

    code: grpc.StatusCode
    reason: str | None
    """The broker's reason. None: the error does not come from the broker."""
    message: str
    pushback: float | None
    """The seconds that the broker asks to wait. Negative: the request must not be sent again."""
    field: str | None = None
    """The path of the field of the request that the broker refuses, such as "items[0].delay"."""
    applied: Applied = "unknown"
    """Whether the call can have changed something."""
    others_answer: bool = False
    """True if the last call to another broker has not failed. The next attempt is one to that broker."""

    @property
    def wait(self) -> float | None:
        """The seconds after which the broker asks to send the request again. None: it does not ask."""
        return self.pushback if self.pushback is not None and self.pushback >= 0 else None


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    message: Any
    sent_at: float
    """The moment of the monotonic clock before the attempt that was answered was sent."""
    attempts: int
    """How often the request was sent."""
    first_sent_at: float
    """The moment before the first attempt was sent."""


class Abort:
    """Ends the running call, and calls that begin later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Any = None
        self._event = threading.Event()

    @property
    def is_set(self) -> bool:
        """True after `cancel`."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Ends the running call, if there is one."""
        with self._lock:
            self._event.set()
            if self._future is not None:
                self._future.cancel()

    def watch(self, future: Any) -> None:
        """Makes `cancel` end this call."""
        with self._lock:
            self._future = future
            if self._event.is_set():
                future.cancel()

    def wait(self, seconds: float) -> bool:
        """Waits. Returns True as soon as the calls are to end."""
        return self._event.wait(seconds)


class Aborted(Exception):
    """The call was ended by `Abort.cancel`. `applied` is as in `LeaseBrokerError`."""

    def __init__(self, applied: Applied) -> None:
        super().__init__()
        self.applied = applied


class Caller:
    """Sends requests, and sends them again while that is useful."""

    def __init__(
        self,
        transport: Transport,
        token: Token | None = None,
        on_retry: Callable[..., None] = lambda **_details: None,
        health: CallHealth | None = None,
    ) -> None:
        """`on_retry` gets the details of the event `retry`, before the request is sent again."""
        self._transport = transport
        self._health = health or CallHealth()
        self._token = token
        self._on_retry = on_retry

    @property
    def has_token(self) -> bool:
        """True if requests have a token."""
        return self._token is not None

    @property
    def token_may_block(self) -> bool:
        """True if `metadata` may not return, because it calls a function of the user or reads a file."""
        return self._token is not None and self._token.may_block

    def metadata(self, fresh: bool = False) -> list[tuple[str, str]]:
        """Returns the headers of a request. Raises `TokenError` if there is no token."""
        if self._token is None:
            return []
        return [("authorization", f"Bearer {self._token.text(fresh)}")]

    def call(
        self,
        rpc: str,
        request: Any,
        *,
        until: float | Callable[[], float] = float("inf"),
        attempt_timeout: float = ATTEMPT_TIMEOUT,
        abort: Abort | None = None,
        on_retry: Callable[[], None] | None = None,
        gives_up: Callable[[CallFailure], bool] | None = None,
    ) -> Answer:
        """Returns the answer. Sends the request again until the moment `until` of the monotonic clock.

        `until` can be a function, because heartbeats can move the moment while the request is sent again. `on_retry` is
        called before each retry. `gives_up` takes each failure after which the request can be sent again, and returns
        True if that is of no use. Raises `LeaseBrokerError` if a retry cannot help or the time is over, and `Aborted`
        after `abort.cancel`.
        """
        end = until if callable(until) else lambda: until
        wait, attempt, fresh_token = _MIN_WAIT, 0, False
        # Of all attempts together.
        applied: Applied = "no"
        first_sent_at = time.monotonic()
        while True:
            attempt += 1
            sent_at = time.monotonic()
            timeout = max(min(attempt_timeout, end() - sent_at), 0.001)
            try:
                result = self._attempt(rpc, request, timeout, fresh_token, abort)
            except ClosedError:
                closed = CallFailure(grpc.StatusCode.FAILED_PRECONDITION, None, "the client is closed", None)
                raise as_error(rpc, replace(closed, applied=applied)) from None
            if not isinstance(result, CallFailure):
                self._health.note(None)
                return Answer(result, sent_at, attempt, first_sent_at)
            if result.applied == "unknown":
                applied = "unknown"
            failure = replace(result, applied=applied)
            if abort is not None and abort.is_set:
                raise Aborted(applied)
            self._health.note(failure)
            if (
                failure.code is grpc.StatusCode.UNAUTHENTICATED
                and failure.wait is None
                and not fresh_token
                and self._token
            ):
                fresh_token, pause = True, 0.0
            elif not may_retry(failure) or (gives_up is not None and gives_up(failure)):
                raise as_error(rpc, failure)
            elif failure.wait is not None:
                pause = failure.wait
            else:
                pause = wait * random.uniform(0.5, 1.0)
                wait = min(wait * 2, _longest_wait(attempt_timeout))
            if on_retry is not None:
                on_retry()
            resume_at = time.monotonic() + pause
            if resume_at >= end() and not callable(until):
                raise as_error(rpc, failure)
            self._note_retry(rpc, failure, attempt, pause)
            while (rest := resume_at - time.monotonic()) > 0:
                # Heartbeats can move the end while this waits.
                if time.monotonic() >= end():
                    raise as_error(rpc, failure)
                step = min(rest, _PAUSE_STEP) if callable(until) else rest
                if abort is None:
                    time.sleep(step)
                elif abort.wait(step):
                    raise Aborted(applied)

    def _attempt(self, rpc: str, request: Any, timeout: float, fresh_token: bool, abort: Abort | None) -> Any:
        """Sends a request once. Returns the message of the answer, or the failure."""
        try:
            metadata = self.metadata(fresh_token)
            if abort is not None and abort.is_set:
                return CallFailure(grpc.StatusCode.CANCELLED, None, "cancelled", None, applied="no")
            begun = time.monotonic()
            broker = self._transport.route(min(timeout, _RESOLVE_SECONDS))
            timeout = max(timeout - (time.monotonic() - begun), 0.001)
        except IllegalTokenError as error:
            # As if a broker had refused it: it is asked for once more.
            return CallFailure(grpc.StatusCode.UNAUTHENTICATED, None, str(error), None, applied="no")
        except (TokenError, OSError) as error:
            # A file that is being replaced, an identity service or a name server that is down.
            return CallFailure(grpc.StatusCode.UNAVAILABLE, None, str(error), None, applied="no")
        try:
            if abort is None:
                message = broker.call(rpc, request, timeout, metadata)
            else:
                future = broker.start(rpc, request, timeout, metadata)
                abort.watch(future)
                message = future.result()
        except ValueError as error:
            # gRPC's error of a channel that was closed since. The next attempt has another one, unless all are closed.
            self._transport.route()
            return CallFailure(grpc.StatusCode.UNAVAILABLE, None, str(error), None, applied="no")
        except grpc.FutureCancelledError:
            return CallFailure(grpc.StatusCode.CANCELLED, None, "cancelled", None)
        except grpc.RpcError as error:
            failure = read_failure(error)
            return replace(failure, others_answer=note_failure(self._transport, broker, failure))
        self._transport.note(broker, failed=getattr(message, "held_back", 0) == v1.HELD_BACK_STOPPING)
        return message

    def pause_after_next(self, failure: CallFailure) -> float:
        """Returns the seconds to wait before the next claim, after the claim in a `next` has failed.

        Raises `LeaseBrokerError` if a further claim cannot succeed.
        """
        if not may_retry(failure):
            raise as_error("ClaimBatch", failure)
        pause = _MIN_WAIT if failure.wait is None else failure.wait
        self._note_retry("ClaimBatch", failure, 1, pause)
        return pause

    def pause_after_lock(self, rpc: str, tries: int, left: float, attempt_timeout: float) -> float:
        """Returns the seconds to wait before entries are sent again that a lock has refused `tries` times.

        Raises `LeaseBrokerError` if the pause does not end within `left` seconds.
        """
        text = "another transaction has locked the row"
        failure = CallFailure(grpc.StatusCode.UNAVAILABLE, "LOCKED", text, None, applied="no")
        wait = _MIN_WAIT * 2.0 ** min(tries - 1, 10)
        pause = min(wait, _longest_wait(attempt_timeout)) * random.uniform(0.5, 1.0)
        if pause >= left:
            raise as_error(rpc, failure)
        self._note_retry(rpc, failure, tries, pause)
        return pause

    def _note_retry(self, rpc: str, failure: CallFailure, attempt: int, wait: float) -> None:
        self._on_retry(rpc=rpc, code=failure.code.name, reason=failure.reason, attempt=attempt, wait=wait)


def _longest_wait(attempt_timeout: float) -> float:
    """Returns the longest wait before a retry for which the broker asks for none.

    An attempt at a settlement may take half of the lease, and at least 1 s. So a wait takes at most a quarter of the
    lease, or 0.5 s, and heartbeats extend the lease more often.
    """
    return min(_MAX_WAIT, attempt_timeout / 2)


def note_failure(transport: Transport, broker: Broker, failure: CallFailure) -> bool:
    """Lets the next call use another broker, if this one does not work. Returns True if there is one that works."""
    silent = failure.code is grpc.StatusCode.DEADLINE_EXCEEDED and failure.reason is None
    of_connection = failure.code is grpc.StatusCode.UNAVAILABLE or (failure.reason is None and may_retry(failure))
    return transport.note(broker, failed=of_connection, silent=silent) and of_connection


def may_retry(failure: CallFailure) -> bool:
    """Returns True if the same request may succeed later."""
    # The broker sends a pushback of -1 with its own DEADLINE_EXCEEDED. The next attempt has a deadline of its own.
    if failure.pushback is not None and failure.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
        return failure.wait is not None
    match failure.code:
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.DEADLINE_EXCEEDED | grpc.StatusCode.CANCELLED:
            return True
        case grpc.StatusCode.UNKNOWN | grpc.StatusCode.INTERNAL:
            # Without a reason of the broker the error is the connection's.
            return failure.reason is None
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            # Without a reason of the broker it is this program's own limit, and the next answer is as large.
            return failure.reason == "OVERLOADED"
        case _:
            return False


def as_error(rpc: str, failure: CallFailure) -> LeaseBrokerError:
    """Returns the exception for a failure that is final."""
    return LeaseBrokerError(
        rpc, failure.code.name, failure.reason, failure.message, failure.field, failure.applied, may_retry(failure)
    )


def check_count(rpc: str, results: Sized, entries: Sized) -> None:
    """Raises `LeaseBrokerError` if an answer has not one result for each entry of the request."""
    if len(results) != len(entries):
        text = f"the answer has {len(results)} results for {len(entries)} entries"
        raise LeaseBrokerError(rpc, grpc.StatusCode.INTERNAL.name, None, text)


def failure_of_next(error: v1.CallError) -> CallFailure:
    """Returns the status of a claim in a `next` that failed."""
    code = _CODES.get(error.code, grpc.StatusCode.UNKNOWN)
    pushback = duration_seconds(error.retry_delay) if error.HasField("retry_delay") else None
    return CallFailure(code, error.reason or None, error.message, pushback, applied=_read_applied(error.metadata))


def read_failure(error: grpc.RpcError) -> CallFailure:
    """Reads the status of an answer, with the broker's reason and the time that it asks to wait."""
    trailers: Any = error.trailing_metadata() or ()
    metadata = dict(trailers)
    reason, retry_info, field, applied = _read_details(metadata.get("grpc-status-details-bin", b""))
    pushback = retry_info
    if "grpc-retry-pushback-ms" in metadata:
        try:
            pushback = int(metadata["grpc-retry-pushback-ms"]) / 1000
        except ValueError:
            pushback = -1.0
    failure = CallFailure(error.code(), reason, error.details() or "", pushback, field, applied)
    if failure.code is grpc.StatusCode.UNKNOWN and reason is None and _STATUS_413.search(failure.message):
        # The answer of a proxy has the code of gRPC for a request that is too large. No broker has got the request.
        return replace(failure, code=grpc.StatusCode.RESOURCE_EXHAUSTED, applied="no")
    if failure.code is grpc.StatusCode.UNAVAILABLE and failure.message.startswith(_NOT_CONNECTED):
        return replace(failure, applied="no")
    return failure


def _read_details(value: bytes) -> tuple[str | None, float | None, str | None, Applied]:
    """Reads the broker's reason, the seconds to wait, the refused field and `applied` from the details of a status."""
    reason, wait, field = None, None, None
    applied: Applied = "unknown"
    status = status_pb2.Status()
    try:
        status.ParseFromString(value)
        for detail in status.details:
            info, retry, request = (
                error_details_pb2.ErrorInfo(),
                error_details_pb2.RetryInfo(),
                error_details_pb2.BadRequest(),
            )
            if detail.Unpack(info) and info.domain == _DOMAIN:
                reason, applied = info.reason, _read_applied(info.metadata)
            elif detail.Unpack(retry):
                wait = duration_seconds(retry.retry_delay)
            elif detail.Unpack(request) and request.field_violations:
                field = request.field_violations[0].field
    except ValueError:
        # Details that cannot be read tell nothing. The status code still does.
        return None, None, None, "unknown"
    return reason, wait, field, applied


def _read_applied(metadata: Mapping[str, str]) -> Applied:
    """Reads `applied` from the metadata of an error."""
    return "no" if metadata.get("applied") == "no" else "unknown"
