"""Exceptions that decide, and what crosses a process boundary."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import lease_broker
from lease_broker import (
    BatchError,
    Cancelled,
    DeadLetter,
    Item,
    LeaseBrokerError,
    Release,
    Retry,
    UnknownColumnError,
    v1,
)
from lease_broker.errors import decision, error_text
from lease_broker.item import read_item


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


class Group(Exception):
    """A group of exceptions, such as `ExceptionGroup`, which Python 3.10 has not."""

    def __init__(self, *exceptions: BaseException) -> None:
        super().__init__(f"tasks failed ({len(exceptions)} sub-exceptions)")
        self.exceptions = exceptions


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


DEAD, LATER = DeadLetter("dead"), Retry("later")


@pytest.mark.parametrize(
    ("error", "decides"),
    [
        (Group(ValueError("x"), DEAD), DEAD),
        (Group(Group(ValueError("x")), Group(LATER), DEAD), LATER),
        (Group(caused_by(ValueError("x"), DEAD), LATER), DEAD),
        (caused_by(Group(LATER), DEAD), LATER),
        (caused_by(ValueError("x"), Group(DEAD)), DEAD),
        (Group(ValueError("x")), None),
    ],
)
def test_first_exception_of_a_group_that_decides_counts(error: Exception, decides: Exception | None) -> None:
    assert decision(error) is decides


def test_text_of_a_group_has_its_first_exception() -> None:
    error = Group(Group(ValueError("x"), KeyError("y")), DEAD)
    assert error_text(error) == "Group: tasks failed (2 sub-exceptions): ValueError: x"


@pytest.mark.parametrize("read", [False, True])
def test_item_survives_a_pickle(read: bool) -> None:
    lease = v1.Lease(item=v1.Item(key="7", columns={"n": v1.ColumnValue(int64_value=5)}), attempt=2, checkpoint=b"half")
    for item in (read_item(lease), Item("7", {"n": 5}, attempt=2)):
        if read:
            assert item.columns["n"] == 5
        copy = pickle.loads(pickle.dumps(item))
        assert (copy.key, copy.attempt, copy.columns, copy.checkpoint) == ("7", 2, {"n": 5}, item.checkpoint)


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda each: type(each).__name__)
def test_exception_survives_a_pickle(exception: Any) -> None:
    read = pickle.loads(pickle.dumps(exception))
    assert (type(read), str(read), vars(read)) == (type(exception), str(exception), vars(exception))


def test_all_public_exceptions_are_pickled() -> None:
    public = {each for each in vars(lease_broker).values() if isinstance(each, type) and issubclass(each, Exception)}
    assert public == {type(each) for each in EXCEPTIONS}
