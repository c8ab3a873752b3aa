"""The types of handlers and of middleware."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from lease_broker.item import Item, Result
from lease_broker.leases import Context
from lease_broker.values import Row

Returned: TypeAlias = "Result | Row | None"
"""What a handler returns for an item: a `Result`, values to write into columns of its row, or None."""
ReturnedByItem: TypeAlias = "Mapping[Item, Returned] | None"


_Item: TypeAlias = "Returned | Awaitable[Returned]"
_Batch: TypeAlias = "ReturnedByItem | Awaitable[ReturnedByItem]"
# A handler gets the item, or the items of a batch, and the context if it has a second parameter.
AnyHandler: TypeAlias = (
    "Callable[[Item], _Item] | Callable[[Item, Context], _Item]"
    " | Callable[[list[Item]], _Batch] | Callable[[list[Item], Context], _Batch]"
)
HandlerT = TypeVar("HandlerT", bound=AnyHandler)
Middleware: TypeAlias = Callable[[Callable[[Any, Context], Any]], Callable[[Any, Context], Any]]
"""A decorator of handlers: it gets a handler with two parameters, and returns one. The first parameter is the item, or
the list of items of a batch. The result of an `async def` handler is a coroutine. A plain one can have only plain
decorators."""


def wrap(handler: Callable[..., Any], middleware: Sequence[Middleware]) -> Callable[[Any, Context], Any]:
    """Returns a handler of an item and a context within its middleware, also if `handler` takes only the item.

    Raises `TypeError` if the handler can be called with neither.
    """
    signature = inspect.signature(handler)
    takes_context = _takes_context(signature)
    try:
        signature.bind(*(None, None) if takes_context else (None,))
    except TypeError as error:
        name, given = getattr(handler, "__qualname__", repr(handler)), "an item and a context"
        text = f"the handler {name} cannot be called with {given if takes_context else 'an item'}: {error}"
        raise TypeError(text) from None
    wrapped: Callable[[Any, Context], Any] = handler if takes_context else lambda item, _context: handler(item)
    if middleware and is_async(handler) and not inspect.iscoroutinefunction(wrapped):
        plain = wrapped

        async def call(item: Any, context: Context) -> Any:
            return await plain(item, context)

        # Middleware has to see that the handler is async.
        wrapped = call
    for each in reversed(middleware):
        wrapped = each(wrapped)
        if not callable(wrapped):
            raise TypeError(f"a middleware has returned {type(wrapped).__name__} and not a handler")
        if is_async(wrapped) and not is_async(inspect.unwrap(handler)):
            # The handlers would block the event loop, and run one after the other.
            raise TypeError("an async middleware needs an async handler: use a plain middleware, or an async handler")
    return wrapped


def _takes_context(signature: inspect.Signature) -> bool:
    """Returns True if the second parameter of a handler is the context. One with a default is if its name says so."""
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return positional[1].default is inspect.Parameter.empty or positional[1].name == "context"


def is_async(handler: Callable[..., Any]) -> bool:
    """Returns True for an `async def`, and for an object whose `__call__` is one."""
    # Not for a plain function around one: it may itself run the coroutine in a loop, as `asyncio.run` does.
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
