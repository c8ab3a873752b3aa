"""Exceptions that cross a process boundary."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import lease_broker
from lease_broker import BatchError, Cancelled, DeadLetter, LeaseBrokerError, Release, Retry, UnknownColumnError


def after_rows() -> LeaseBrokerError:
    error = LeaseBrokerError("Enqueue", "UNAVAILABLE", "OVERLOADED", "busy", "items[2].delay", "no", temporary=True)
    error._after_rows(["1", "2"])
    return error


EXCEPTIONS: list[Any] = [
    after_rows(),
    LeaseBrokerError("Wake", "NOT_FOUND", None, "no such queue"),
    Retry("why", after=3),
    Release(after=60),
    DeadLetter("why"),
    BatchError({}),
    UnknownColumnError("no column"),
    Cancelled("time_limit"),
]


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda each: type(each).__name__)
def test_exception_survives_a_pickle(exception: Any) -> None:
    read = pickle.loads(pickle.dumps(exception))
    assert (type(read), str(read), vars(read)) == (type(exception), str(exception), vars(exception))


def test_all_public_exceptions_are_pickled() -> None:
    public = {each for each in vars(lease_broker).values() if isinstance(each, type) and issubclass(each, Exception)}
    assert public == {type(each) for each in EXCEPTIONS}
