"""Handlers that are data: the payload of an item says, as JSON, how its handler acts."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import time
from typing import Any

from journal import Journal

from lease_broker import BatchError, Context, DeadLetter, FollowUp, Item, Release, Result, Retry

_HOLD_SECONDS, _PAUSE_SECONDS = 0.9, 0.1
_BLOCK_SECONDS = 10


class Handlers:
    """The handlers of the program, in threads and as tasks, for items and for batches."""

    def __init__(self, journal: Journal, effects: str | None) -> None:
        self._journal = journal
        self._effects = effects

    def noop(self, _item: Item) -> None:
        """Returns immediately."""

    async def noop_async(self, _item: Item) -> None:
        """Returns immediately."""

    def handle(self, item: Item, context: Context) -> Result | None:
        """Acts as the payload says, in a thread."""
        payload = begin(item, context)
        seconds = payload.get("sleep_ms", 0) / 1000
        if payload.get("ignore_cancel"):
            time.sleep(seconds)
        else:
            context.cancelled.wait(seconds)
            context.check()
        return self._end(item, payload)

    async def handle_async(self, item: Item, context: Context) -> Result | None:
        """Acts as the payload says, as a task."""
        payload = begin(item, context)
        until = time.monotonic() + payload.get("sleep_ms", 0) / 1000
        while (left := until - time.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not payload.get("ignore_cancel"):
                    raise
        return self._end(item, payload)

    def handle_batch(self, items: list[Item], context: Context) -> dict[Item, Result | None]:
        """Acts as the payloads say, one after the other."""
        results: dict[Item, Result | None] = {}
        errors: dict[Item, BaseException] = {}
        for item in items:
            try:
                results[item] = self.handle(item, context)
            except Exception as error:
                errors[item] = error
        return batch_result(results, errors)

    async def handle_batch_async(self, items: list[Item], context: Context) -> dict[Item, Result | None]:
        """Acts as the payloads say, one after the other."""
        results: dict[Item, Result | None] = {}
        errors: dict[Item, BaseException] = {}
        for item in items:
            try:
                results[item] = await self.handle_async(item, context)
            except Exception as error:
                errors[item] = error
        return batch_result(results, errors)

    def _end(self, item: Item, payload: dict[str, Any]) -> Result | None:
        time.sleep(payload.get("block_ms", 0) / 1000)
        hold_interpreter(payload.get("hold_ms", 0))
        if payload.get("effect") and self._effects and not append_effect(self._effects, payload["effect"], item):
            self._journal.write("effect_refused", key=item.key, fence=item.fencing_token)
        after = payload["after_ms"] / 1000 if payload.get("after_ms") else None
        match payload.get("then", "complete"):
            case "raise":
                raise RuntimeError("raised")
            case "retry":
                raise Retry("retry", after)
            case "dead":
                raise DeadLetter("dead")
            case "release":
                raise Release(after)
            case "exit":
                os._exit(3)
        follow_ups = [FollowUp(each["queue"], each["columns"]) for each in payload.get("follow_ups", ())]
        return Result(follow_ups, payload.get("columns", {}))


def begin(item: Item, context: Context) -> dict[str, Any]:
    """Returns the payload. Stores the checkpoint that it names."""
    payload: dict[str, Any] = json.loads(str(item.columns["payload"]))
    if "on_cancel" in payload:
        context.on_cancel(lambda: act_on_cancel(payload["on_cancel"]))
    if payload.get("checkpoint"):
        context.checkpoint(payload["checkpoint"].encode(), item)
    return payload


def act_on_cancel(how: str) -> None:
    """Raises, or blocks for longer than a lease."""
    if how == "raise":
        raise RuntimeError("raised in on_cancel")
    time.sleep(_BLOCK_SECONDS)


def batch_result(results: dict[Item, Result | None], errors: dict[Item, BaseException]) -> dict[Item, Result | None]:
    """Returns the results of a batch, or raises its errors."""
    if errors:
        raise BatchError(errors)
    return results


def hold_interpreter(milliseconds: int) -> None:
    """Holds the interpreter's lock for most of each second, as C code that does not release it."""
    # Functions of a PyDLL are called with the lock.
    libc = ctypes.PyDLL(None)
    until = time.monotonic() + milliseconds / 1000
    while time.monotonic() < until:
        libc.usleep(int(_HOLD_SECONDS * 1_000_000))
        time.sleep(_PAUSE_SECONDS)


def append_effect(path: str, effect: str, item: Item) -> bool:
    """Appends an effect with the item's fencing token. Returns False if a greater token has been there before."""
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for line in file:
            name, key, fence = line.split()
            if (name, key) == (effect, item.key) and int(fence) > item.fencing_token:
                return False
        file.write(f"{effect} {item.key} {item.fencing_token}\n")
    return True
