"""The options of a worker."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from lease_broker.credentials import Credentials, Token, plaintext
from lease_broker.events import Observer

_MAX_ITEMS_PER_CALL = 1_000


def default_worker_id() -> str:
    """Returns a name made of the host, the process and random digits."""
    host = socket.gethostname()[:90]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Options:
    """The options of a worker. Durations are in seconds. `Worker` documents each of them."""

    address: str | Sequence[str]
    queue: str
    concurrency: int = 1
    batch: int | None = None
    worker_id: str = field(default_factory=default_worker_id)
    lease: float | None = None
    heartbeat: bool = True
    time_limit: float | None = None
    wait: float = 20.0
    grace: float = 20.0
    stuck_after: float = 30.0
    max_stuck: int | None = None
    credentials: Credentials = field(default_factory=plaintext)
    token: Token | None = None
    observer: Observer | None = None
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("lease_broker"))

    def __post_init__(self) -> None:
        """Raises `ValueError` for an option out of its range."""
        for name in ("concurrency", "batch", "max_stuck"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        if self.batch is not None and self.batch > _MAX_ITEMS_PER_CALL:
            raise ValueError(f"batch is {self.batch}; a call returns at most {_MAX_ITEMS_PER_CALL} items")
        for name in ("lease", "time_limit", "stuck_after"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be greater than 0")
        for name in ("wait", "grace"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")

    @property
    def slot_size(self) -> int:
        """The number of items that one handler gets."""
        return self.batch or 1

    @property
    def max_slots_per_call(self) -> int:
        """The number of handlers that one claim can find items for."""
        return max(_MAX_ITEMS_PER_CALL // self.slot_size, 1)

    @property
    def allowed_stuck(self) -> int:
        """The number of stuck handlers whose slots are replaced."""
        return self.concurrency if self.max_stuck is None else self.max_stuck
