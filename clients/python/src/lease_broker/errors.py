"""Errors of calls, and the exceptions by which a handler says how its item ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lease_broker.item import Item

Cause = Literal["lease_lost", "time_limit", "shutdown"]
"""The reason why a handler is cancelled."""
Applied = Literal["no", "partly", "unknown"]
"""Whether a call that failed can have changed something."""


class LeaseBrokerError(Exception):
    """A call that failed. A retry cannot help, or the time for retries is over.

    `code` is the name of the gRPC status, such as "NOT_FOUND". `reason` is the reason of the broker, such as
    "QUEUE_NOT_FOUND", or None if the error does not come from the broker. `field` is the path of the field of the
    request that the broker refused, or None. `applied` is "no" if the call has changed nothing and will change nothing,
    and "unknown" if its changes may have been made or may still be made. `temporary` is True if the same call can
    succeed later: only the time for retries is over.

    `keys` has the keys of the first rows of an `enqueue`, which earlier calls have added. If there are some, `applied`
    is "partly" if the other rows were not added and will not be, and otherwise "unknown".
    """

    def __init__(
        self,
        rpc: str,
        code: str,
        reason: str | None,
        message: str,
        field: str | None = None,
        applied: Applied = "unknown",
        temporary: bool = False,
    ) -> None:
        super().__init__(_call_text(rpc, code, reason, message))
        self.rpc = rpc
        self.code = code
        self.reason = reason
        self.message = message
        self.field = field
        self.applied = applied
        self.temporary = temporary
        self.keys: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduce(self)

    def _after_rows(self, keys: list[str]) -> None:
        """Makes the error of a call that of an `enqueue` whose earlier calls have added rows with these keys."""
        if not keys:
            return
        self.keys = keys
        self.message = f"{_after(len(keys), self.message)}; the first {len(keys)} rows were added"
        self.field = _after(len(keys), self.field) if self.field else self.field
        self.applied = "partly" if self.applied == "no" else "unknown"
        # The same rows again would add the first ones twice.
        self.temporary = False
        self.args = (_call_text(self.rpc, self.code, self.reason, self.message),)


def _reduce(error: Exception) -> tuple[Any, ...]:
    """Lets `pickle` make an exception whose arguments are not those of its `__init__`.

    Otherwise it cannot be read again, which breaks the pool of processes in which a function has raised it.
    """
    return _without_init, (type(error), error.args), vars(error)


def _without_init(kind: type[Exception], arguments: tuple[Any, ...]) -> Exception:
    return kind.__new__(kind, *arguments)


def _call_text(rpc: str, code: str, reason: str | None, message: str) -> str:
    return f"{rpc}: {code}{f' ({reason})' if reason else ''}: {message}"


def _after(rows: int, text: str) -> str:
    """Adds the number of earlier rows to the index at the beginning of a field's path."""
    return re.sub(r"^items\[(\d+)\]", lambda found: f"items[{int(found[1]) + rows}]", text)


class Retry(Exception):
    """The item failed. It is tried again after `after`, or after the queue's backoff, if it has attempts left."""

    def __init__(self, message: str = "", after: timedelta | float | None = None) -> None:
        super().__init__(message)
        self.after = _checked(after)


class DeadLetter(Exception):
    """The item failed and is not tried again: it becomes dead."""


class Release(Exception):
    """The item is given back and its attempt does not count. It is ready after `after`, or immediately."""

    def __init__(self, after: timedelta | float | None = None) -> None:
        super().__init__("released")
        self.after = _checked(after)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduce(self)


class BatchError(Exception):
    """Some items of a batch failed. Items that are not listed are completed."""

    def __init__(self, errors: Mapping[Item, BaseException]) -> None:
        super().__init__(f"{len(errors)} items failed")
        self.errors = dict(errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduce(self)


class Cancelled(Exception):
    """Raised by `Context.check` in a handler that is cancelled. `cause` says why."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


MAX_SECONDS = 315_576_000_000
"""The longest duration of the API: 10,000 years."""


def check_seconds(name: str, value: Any) -> float:
    """Returns a duration in seconds. Raises `ValueError` with its name if a message cannot hold it."""
    try:
        # Infinity and NaN are out of the range too.
        fits = 0 <= value <= MAX_SECONDS
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(f"{name} is {value!r}; it must be a number of seconds from 0 to {MAX_SECONDS}")
    seconds: float = value
    return seconds


def seconds(duration: timedelta | float | None) -> float | None:
    """Returns a duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def _checked(after: timedelta | float | None) -> float | None:
    """Returns a delay in seconds. Raises `ValueError`, with the line of the handler, if a message cannot hold it."""
    return None if after is None else check_seconds("after", seconds(after))


_MAX_CAUSES = 100


def decision(error: BaseException) -> Retry | DeadLetter | Release | None:
    """Returns the first exception that says how the item ends, among an exception, its group and its causes."""
    waiting: list[BaseException] = [error]
    for _ in range(_MAX_CAUSES):  # The causes can form a circle.
        if not waiting:
            break
        each = waiting.pop()
        if isinstance(each, (Retry, DeadLetter, Release)):
            return each
        if each.__cause__ is not None:
            waiting.append(each.__cause__)
        waiting.extend(reversed(_members(each)))
    return None


def _members(error: BaseException) -> Sequence[BaseException]:
    """Returns the exceptions of an `ExceptionGroup`. Python 3.10 has none of its own, but a package for it."""
    members = getattr(error, "exceptions", ())
    is_group = isinstance(members, tuple) and all(isinstance(each, BaseException) for each in members)
    return members if is_group else ()


def error_text(error: BaseException) -> str:
    """Returns the text of an error, as it is stored on the row. Raises nothing, however odd the error is.

    The text of a group only counts its exceptions, so that of its first one follows.
    """
    text, leaf = _text(error), error
    try:
        for _ in range(_MAX_CAUSES):
            members = _members(leaf)
            if not members:
                break
            leaf = members[0]
    except BaseException:
        return text
    return text if leaf is error else f"{text}: {_text(leaf)}"


def _text(error: BaseException) -> str:
    try:
        message = str(error)
    except BaseException:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
