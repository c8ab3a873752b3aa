"""The event loop of a worker, for handlers that return awaitables in a program without a loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

_CLOSE_SECONDS = 1.0


class OwnLoop:
    """An event loop in a thread of its own, which begins when the loop is needed.

    All handlers of a worker share it, because locks, sessions and pools of asyncio belong to one loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        # It is a daemon: a handler that blocks the loop does not keep the process.
        self._thread = threading.Thread(target=self._run, name="lease-broker-loop", daemon=True)
        self._began: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()

    def get(self) -> asyncio.AbstractEventLoop:
        """Returns the loop."""
        with self._lock:
            if self._loop is None:
                self._thread.start()
                self._loop = self._began.result()
            return self._loop

    def close(self) -> None:
        """Cancels the tasks that are left, and closes the loop. Waits for that for a moment."""
        with self._lock:
            if self._loop is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._ended.set)
                self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.run(self._wait_for_the_end())

    async def _wait_for_the_end(self) -> None:
        self._ended = asyncio.Event()
        self._began.set_result(asyncio.get_running_loop())
        await self._ended.wait()
