"""Translation between the values of columns and Python's types.

Integers are `int`, floating-point numbers `float`, truth values `bool`, text `str`, bytes `bytes`, points in time
`datetime` in UTC, exact decimals `Decimal`, and NULL is `None`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TypeAlias

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from lease_broker import v1
from lease_broker.errors import check_seconds

ColumnValue: TypeAlias = "bool | int | float | str | bytes | datetime | Decimal | None"
"""The value of a column."""
Row: TypeAlias = Mapping[str, ColumnValue]
"""Values by column name."""


class UnknownColumnError(KeyError):
    """The item has no column with this name."""

    def __str__(self) -> str:
        # The text of a KeyError is quoted.
        return str(self.args[0])


class Columns(dict[str, "ColumnValue"]):
    """The columns of an item. Reading an unknown column with [] raises an `UnknownColumnError`.

    In the place of a value whose kind only a newer API has, there is the `ValueError` that reading it raises.
    """

    def __getitem__(self, column: str) -> ColumnValue:
        value = super().__getitem__(column)
        if isinstance(value, ValueError):
            raise ValueError(*value.args)
        return value

    def get(self, column: str, default: ColumnValue = None) -> ColumnValue:  # type: ignore[override]
        try:
            return self[column]
        except UnknownColumnError:
            return default

    def __missing__(self, column: str) -> ColumnValue:
        raise UnknownColumnError(f"no column {column!r}; the item has {', '.join(sorted(self)) or 'no columns'}")


_LONGEST = 366 * 24 * 3_600
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = ((end.replace(tzinfo=timezone.utc) - _EPOCH) // _MICROSECOND for end in (datetime.min, datetime.max))
"""The moments that a message can hold, in microseconds."""


def to_message(column: str, value: ColumnValue) -> v1.ColumnValue:
    """Returns the message for a value. `column` is the name for the text of an error.

    Raises `TypeError` for a type that no column has, and `ValueError` for a value that cannot be sent: a number that is
    none, a text that is no Unicode, or a datetime without a time zone or outside the years 0001 to 9999 in UTC.
    """
    if value is None:
        return v1.ColumnValue(null_value=0)  # type: ignore[arg-type]
    if isinstance(value, bool):
        return v1.ColumnValue(bool_value=value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"column {column!r}: {value} has more than 64 bits; pass a Decimal")
        return v1.ColumnValue(int64_value=value)
    if isinstance(value, float):
        if value != value:
            raise ValueError(f"column {column!r}: NaN is not a number")
        return v1.ColumnValue(double_value=value)
    if isinstance(value, str):
        return v1.ColumnValue(string_value=check_text(f"column {column!r}", value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return v1.ColumnValue(bytes_value=bytes(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"column {column!r}: {value} is not a decimal number")
        return v1.ColumnValue(decimal_value=format(value, "f"))
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"column {column!r}: the datetime has no time zone")
        message = v1.ColumnValue()
        microseconds = (value - _EPOCH) // _MICROSECOND
        if not _FIRST <= microseconds <= _LAST:
            raise ValueError(f"column {column!r}: {value} is outside the years 0001 to 9999 in UTC")
        message.timestamp_value.seconds, rest = divmod(microseconds, 1_000_000)
        message.timestamp_value.nanos = rest * 1000
        return message
    raise TypeError(f"column {column!r}: {type(value).__name__} is not a type of a column")


def check_text(name: str, text: str) -> str:
    """Returns a text. Raises `ValueError` with its name if a message cannot hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: the text has half of a character (a lone surrogate)") from None
    return text


def row_to_messages(row: Row) -> dict[str, v1.ColumnValue]:
    """Returns the messages for the columns of a row. Raises `TypeError` or `ValueError`, which names the column."""
    if not hasattr(row, "items"):
        raise TypeError(f"a row is a mapping of values by column and not a {type(row).__name__}")
    return {check_name(column): to_message(column, value) for column, value in row.items()}


def check_name(column: str) -> str:
    """Returns the name of a column. Raises `TypeError` or `ValueError` if a message cannot hold it."""
    if not isinstance(column, str):
        raise TypeError(f"the name of a column is {type(column).__name__} and not a str")
    return check_text(f"the name {column!r} of a column", column)


def columns_from_messages(messages: Mapping[str, v1.ColumnValue]) -> Columns:
    """Returns the columns of an item."""
    return Columns({column: from_message(column, message) for column, message in messages.items()})  # type: ignore[misc]


def from_message(column: str, message: v1.ColumnValue) -> ColumnValue | ValueError:
    """Returns the value that a message holds. An error: its kind is unknown."""
    kind = message.WhichOneof("kind")
    if kind is None:
        return ValueError(f"column {column!r} has a value of a newer API")
    if kind == "null_value":
        return None
    if kind == "timestamp_value":
        return to_datetime(message.timestamp_value)
    if kind == "decimal_value":
        return Decimal(message.decimal_value)
    value: bool | int | float | str | bytes = getattr(message, kind)
    return value


def to_datetime(message: Timestamp) -> datetime:
    """Returns the point in time that a message holds, in UTC. Digits beyond microseconds are cut off."""
    return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def duration(seconds: float, name: str = "a duration") -> Duration:
    """Returns the message for a duration in seconds. Raises `ValueError` with its name if it is out of range.

    A duration above 366 days is cut, because the broker refuses it.
    """
    cut = min(check_seconds(name, seconds), _LONGEST)
    whole, nanos = divmod(round(cut * 1_000_000_000), 1_000_000_000)
    return Duration(seconds=whole, nanos=nanos)


def duration_seconds(message: Duration) -> float:
    """Returns the seconds of a duration."""
    return message.seconds + message.nanos / 1_000_000_000
