"""Functions that an event loop waits for, each in a thread of its own.

Not in the loop's default executor: long handlers can use all its threads, and the loop needs them to resolve names.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    """Calls a function in a thread, with the context variables of the caller. It goes on if the future is cancelled."""
    result: concurrent.futures.Future[T] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result.set_result(context.run(function))
        except BaseException as error:
            result.set_exception(error)

    # From now on the result can be set, also if nobody waits for it any more.
    result.set_running_or_notify_cancel()
    threading.Thread(target=call, name="lease-broker-wait").start()
    return asyncio.wrap_future(result)
