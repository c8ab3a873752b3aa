"""The network of a worker pauses for 1/3, 2/3 and 2 leases. Then it loses everything for a while.

A busy machine makes a pause longer. One of 1/3 stays unnoticed as long as it becomes shorter than 1/2.
"""

import time
from collections.abc import Callable

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED
from worker_harness.proxy import Proxy
from worker_harness.worker import WorkerProcess, now_ms

_LEASE = 6.0


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease=f"{_LEASE:g}s"))
    proxy = cell.proxy(broker)
    worker = cell.worker(proxy.address, lease_ms=_LEASE * 1000)

    pause(cell, proxy, worker, _LEASE / 3)
    for name in ("heartbeat_missed", "cancelled", "lost"):
        assert worker.count(name) == 0, f"pause of 1/3: {worker.named(name)}"

    pause(cell, proxy, worker, _LEASE * 2 / 3)
    assert worker.count("heartbeat_missed") == 1, worker.named("heartbeat_missed")
    for name in ("cancelled", "lost"):
        assert worker.count(name) == 0, f"pause of 2/3: {worker.named(name)}"

    lose(cell, proxy, worker, _LEASE * 2, proxy.pause)
    lose(cell, proxy, worker, _LEASE * 2 if cell.quick else 60, proxy.hole)
    worker.finish()
    rows = cell.database.rows("work")
    found = [(row.state, row.fence) for row in rows]
    events = [worker.named(name) for name in ("claimed", "lost", "completed")]
    assert found == [(COMPLETED, 1)] * 2 + [(COMPLETED, 2), (COMPLETED, 1)] * 2, f"{found}: {events}"
    check_all(cell)


def pause(cell: Cell, proxy: Proxy, worker: WorkerProcess, seconds: float) -> None:
    """Pauses the network while an item is worked on. The worker completes it."""
    [key] = cell.enqueue([{"sleep_ms": _LEASE * 2000, "effect": "pay"}])
    worker.wait_for("started", key=key)
    beat = worker.count("heartbeat")
    worker.wait_for("heartbeat", beat + 1)
    proxy.pause()
    time.sleep(seconds)
    proxy.pass_all()
    worker.wait_for("completed", key=key)


def lose(cell: Cell, proxy: Proxy, worker: WorkerProcess, seconds: float, fail: Callable[[], None]) -> None:
    """Cuts the network for longer than the lease. Another worker gets the item; afterwards this one works again."""
    [key] = cell.enqueue([{"sleep_ms": _LEASE * 2000, "effect": "pay"}])
    worker.wait_for("started", key=key)
    beat = worker.count("heartbeat")
    worker.wait_for("heartbeat", beat + 1)
    fail()
    ends = time.monotonic() + seconds
    cancelled = worker.wait_for("cancelled", worker.count("cancelled") + 1, key=None)
    assert (cancelled["key"], cancelled["cause"]) == (key, "lease_lost"), cancelled
    other = cell.worker(cell.brokers[0].address, lease_ms=_LEASE * 1000)
    other.wait_for("started", key=key)
    expired = [change for change in cell.database.history("work") if change.key == key and change.fence == 1][-1]
    assert_before_expiry(cancelled["at_ms"], expired.state_time)
    other.wait_for("completed", key=key)
    other.finish()
    time.sleep(max(ends - time.monotonic(), 0))
    proxy.pass_all()
    [again] = cell.enqueue([{}])
    worker.wait_for("completed", key=again, seconds=90)
    assert worker.count("completed", key) == 0, worker.named("completed", key)


def assert_before_expiry(cancelled_ms: float, expired_ms: int) -> None:
    """Checks that the handler was cancelled before the database ended the lease."""
    # Both clocks are of this machine. The database's counts from 1970.
    cancelled = cancelled_ms - now_ms() + time.time() * 1000
    assert cancelled <= expired_ms, f"cancelled {cancelled - expired_ms:.0f} ms after the lease had expired"
