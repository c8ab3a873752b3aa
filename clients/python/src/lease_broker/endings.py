"""Endings of items: completed, failed or released, with the message that settles the lease."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from lease_broker import v1
from lease_broker.errors import BatchError, Cancelled, Cause, DeadLetter, Release, Retry
from lease_broker.item import Result
from lease_broker.leases import HeldLease
from lease_broker.values import duration, row_to_messages

_MAX_ERROR_LENGTH = 1024


@dataclass(slots=True)
class Completed:
    """The work is done."""

    lease: HeldLease
    message: v1.Completion
    follow_ups: int = 0
    """The number of follow-ups in the message."""


@dataclass(slots=True)
class Failed:
    """The work failed."""

    lease: HeldLease
    message: v1.Failure


@dataclass(slots=True)
class Released:
    """The work was not done, and the attempt does not count."""

    lease: HeldLease
    message: v1.Release


Ending: TypeAlias = Completed | Failed | Released


def completed(lease: HeldLease, result: Result | None = None) -> Completed:
    """Returns the ending of an item whose work is done.

    Raises `TypeError` or `ValueError` if a value of a follow-up or of a column cannot be sent.
    """
    if result is None:
        return Completed(lease, v1.Completion(lease_id=lease.id))
    follow_ups = [follow_up.to_message() for follow_up in result.follow_ups]
    columns = row_to_messages(result.columns)
    message = v1.Completion(lease_id=lease.id, follow_ups=follow_ups, columns=columns)
    return Completed(lease, message, len(follow_ups))


def failed(lease: HeldLease, text: str, after: float | None = None, dead: bool = False) -> Failed:
    """Returns the ending of an item that failed with a text."""
    message = v1.Failure(
        lease_id=lease.id, error_message=text[:_MAX_ERROR_LENGTH], dead_letter=dead, checkpoint=lease.new_checkpoint
    )
    if after is not None:
        message.retry_delay.CopyFrom(duration(after))
    return Failed(lease, message)


def released(lease: HeldLease, after: float | None = None) -> Released:
    """Returns the ending of an item that is released."""
    message = v1.Release(lease_id=lease.id, checkpoint=lease.new_checkpoint)
    if after is not None:
        message.delay.CopyFrom(duration(after))
    return Released(lease, message)


def of_result(lease: HeldLease, result: object) -> Ending:
    """Returns the ending for the value that a handler returned: a `Result` or None."""
    if result is not None and not isinstance(result, Result):
        return failed(lease, f"TypeError: the handler returned {type(result).__name__} and not a Result or None")
    try:
        return completed(lease, result)
    except (TypeError, ValueError) as error:
        return failed(lease, error_text(error))


def of_error(lease: HeldLease, error: BaseException, cause: Cause | None, time_limit: float | None) -> Ending:
    """Returns the ending for the exception that a handler raised. `cause`: why the handler was cancelled, if it was."""
    match error:
        case Retry():
            return failed(lease, error_text(error), after=error.after)
        case DeadLetter():
            return failed(lease, error_text(error), dead=True)
        case Release():
            return released(lease, error.after)
    if cause == "shutdown":
        return released(lease)
    if cause == "time_limit" and isinstance(error, (Cancelled, asyncio.CancelledError)):
        return failed(lease, time_limit_text(time_limit))
    return failed(lease, error_text(error))


def of_batch_error(leases: list[HeldLease], error: BatchError) -> list[Ending]:
    """Returns the endings of a batch of which some items failed."""
    return [
        of_error(lease, error.errors[lease.item], None, None) if lease.item in error.errors else completed(lease)
        for lease in leases
    ]


def error_text(error: BaseException) -> str:
    """Returns the text of an error that is stored on the row."""
    message = str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def time_limit_text(time_limit: float | None) -> str:
    """Returns the text for an item whose handler took too long."""
    return "the time limit has passed" if time_limit is None else f"the time limit of {time_limit:g} s has passed"
