"""Endings of items: completed, failed or released, with the message that settles the lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Literal

from lease_broker import v1
from lease_broker.errors import BatchError, Cancelled, Cause, DeadLetter, Release, Retry, decision, error_text
from lease_broker.item import Result, named
from lease_broker.leases import RUNNING, WAITING, HeldLease
from lease_broker.values import duration, row_to_messages

_MAX_ERROR_LENGTH = 1024
Rpc = Literal["Complete", "Fail", "Release"]


class Ending:
    """How an item ends: the rpc that settles its lease, and the entry of the request."""

    __slots__ = ("error", "lease", "message", "rpc", "tries")

    def __init__(self, lease: HeldLease, rpc: Rpc, message: Any = None, error: BaseException | None = None) -> None:
        self.lease = lease
        self.rpc: Rpc = rpc
        self.message = message
        """A v1.Completion, v1.Failure or v1.Release. None: a completion without additions."""
        self.error = error
        """The exception of the handler, until it is logged. None: the text of the message says all."""
        self.tries = 0
        """How often the broker has refused it because the row is locked."""

    @property
    def follow_ups(self) -> int:
        """The number of rows that the completion adds."""
        return len(self.message.follow_ups) if self.message is not None and self.rpc == "Complete" else 0


def completed(lease: HeldLease, result: Result | None = None) -> Ending:
    """Returns the ending of an item whose work is done.

    Raises `TypeError` or `ValueError` if a value of a follow-up or of a column cannot be sent.
    """
    if result is None:
        return Ending(lease, "Complete")
    follow_ups = [follow_up.to_message() for follow_up in result.follow_ups]
    columns = row_to_messages(result.columns)
    return Ending(lease, "Complete", v1.Completion(lease_id=lease.id, follow_ups=follow_ups, columns=columns))


def failed(
    lease: HeldLease,
    text: str,
    after: float | None = None,
    dead: bool = False,
    error: BaseException | None = None,
) -> Ending:
    """Returns the ending of an item that failed with a text."""
    # A name of a file can have halves of characters, which no message can hold.
    text = text[:_MAX_ERROR_LENGTH].encode(errors="replace").decode()
    message = v1.Failure(lease_id=lease.id, error_message=text, dead_letter=dead, checkpoint=lease.new_checkpoint)
    if after is not None:
        message.retry_delay.CopyFrom(duration(after, "after"))
    return Ending(lease, "Fail", message, error)


def released(lease: HeldLease, after: float | None = None, error: BaseException | None = None) -> Ending:
    """Returns the ending of an item that is released."""
    message = v1.Release(lease_id=lease.id, checkpoint=lease.new_checkpoint)
    if after is not None:
        message.delay.CopyFrom(duration(after, "after"))
    return Ending(lease, "Release", message, error)


def of_return(leases: list[HeldLease], is_batch: bool, result: object) -> list[Ending]:
    """Returns the endings for the value that a handler returned: of the item, or by item of the batch."""
    if not is_batch:
        return [of_result(leases[0], result)]
    if result is None:
        return [completed(lease) for lease in leases]
    if not isinstance(result, Mapping):
        text = f"TypeError: the handler of a batch returned {type(result).__name__} and not a dict or None"
        return [failed(lease, text) for lease in leases]
    check_items(leases, result)
    return [of_result(lease, result.get(lease.item)) for lease in leases]


def check_items(leases: list[HeldLease], by_item: Mapping[Any, object]) -> None:
    """Raises `ValueError` if a key, such as the key of a row, is no item of the batch: its result would be lost."""
    if sum(lease.item in by_item for lease in leases) == len(by_item):
        return
    items = [lease.item for lease in leases]
    odd = next(name for name in by_item if name not in items)
    raise ValueError(f"{odd!r} is no item of the batch; name an item by the object that the handler got")


def of_result(lease: HeldLease, result: object) -> Ending:
    """Returns the ending for the result of an item: a `Result`, a mapping with values of columns, or None."""
    if result is None:
        return Ending(lease, "Complete")
    if isinstance(result, Mapping):
        result = Result(columns=result)
    if not isinstance(result, Result):
        text = f"TypeError: the handler returned {type(result).__name__} and not a Result, a mapping or None"
        return failed(lease, text)
    try:
        return completed(lease, result)
    except Exception as error:
        return failed(lease, error_text(error))


def of_raise(
    leases: list[HeldLease], error: BaseException, cause: Cause | None, time_limit: float | None
) -> list[Ending]:
    """Returns the endings for the exception that a handler raised. `cause`: why the handler was cancelled."""
    if not isinstance(error, BatchError):
        return [of_error(lease, error, cause, time_limit) for lease in leases]
    errors = error.errors
    check_items(leases, errors)
    return [
        of_error(lease, errors[lease.item], cause, time_limit) if lease.item in errors else completed(lease)
        for lease in leases
    ]


def of_error(lease: HeldLease, error: BaseException, cause: Cause | None, time_limit: float | None) -> Ending:
    """Returns the ending of one item for an exception."""
    try:
        match decision(error):
            case Retry() as retry:
                return failed(lease, error_text(error), after=retry.after, error=error)
            case DeadLetter():
                return failed(lease, error_text(error), dead=True, error=error)
            case Release() as release:
                return released(lease, release.after, error=None if release is error else error)
    except Exception as odd:
        return failed(lease, f"{error_text(error)} ({error_text(odd)})", error=error)
    obeys = cause is not None and isinstance(error, (Cancelled, asyncio.CancelledError))
    if cause in ("shutdown", "lease_lost"):
        return released(lease, error=None if obeys else error)
    return failed(lease, time_limit_text(time_limit)) if obeys else failed(lease, error_text(error), error=error)


def log_failures(logger: logging.Logger, queue: str, results: list[Ending]) -> None:
    """Logs why items have failed, once for all items with the same error. The broker stores only the last text of each.

    Raises nothing: the log is the program's.
    """
    groups: dict[object, list[Ending]] = {}
    for ending in results:
        if ending.error is not None:
            groups.setdefault(id(ending.error), []).append(ending)
        elif ending.rpc == "Fail" and ending.lease.phase in (WAITING, RUNNING):
            groups.setdefault(ending.message.error_message, []).append(ending)
    for group in groups.values():
        with contextlib.suppress(Exception):
            _log_failure(logger, queue, group)
        for ending in group:
            # An exception keeps all that its handler has used, and the ending may wait for a broker.
            ending.error = None


def _log_failure(logger: logging.Logger, queue: str, group: list[Ending]) -> None:
    first, items = group[0], named([ending.lease.item for ending in group])
    level, stack, problem = logging.WARNING, None, ""
    if (error := first.error) is not None:
        is_unexpected = decision(error) is not error
        level = logging.ERROR if is_unexpected else logging.WARNING
        # `raise Retry(…)` needs no stack, but that of an exception that it replaces would be in no other place.
        replaces = error.__context__ is not None and not error.__suppress_context__
        stack = error if is_unexpected or replaces or error.__cause__ is not None else None
        problem = error_text(error)
    if first.rpc == "Fail":
        problem = first.message.error_message
    is_held = first.lease.phase in (WAITING, RUNNING)
    end = "lost before its handler failed" if not is_held else "failed" if first.rpc == "Fail" else "released"
    logger.log(level, "queue %s: %s %s: %s", queue, items, end, problem, exc_info=stack)


def time_limit_text(time_limit: float | None) -> str:
    """Returns the text for an item whose handler took too long."""
    return "time limit of half of the lease" if time_limit is None else f"time limit of {time_limit:g} s"
