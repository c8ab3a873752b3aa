"""SIGTERM: items that run are completed while heartbeats go on, no others start, and an idle worker leaves no lease."""

import signal
import threading

from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED

SLOTS, HANDLER_MS, LEASE_MS = 8, 2_000, 2_000
MAX_SECONDS = 3
OTHER_ITEMS = 16
ROUNDS, NEW_ITEMS = 3, 100


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s"), Queue("idle"))
    cell.enqueue([{"sleep_ms": HANDLER_MS}] * (SLOTS + OTHER_ITEMS))
    busy = cell.worker(broker.address, concurrency=SLOTS, lease_ms=LEASE_MS)
    busy.wait_for("started", SLOTS)
    stopped = busy.signal(signal.SIGTERM)
    busy.wait_for_end(MAX_SECONDS)
    assert cell.database.states("work") == {"completed": SLOTS, "ready": OTHER_ITEMS}
    rows = [row for row in cell.database.rows("work") if row.state == COMPLETED]
    assert {(row.attempt, row.fence) for row in rows} == {(1, 1)}, rows
    assert busy.events[-1]["ev"] == "stopped", busy.events[-1]
    beats = [event for event in busy.named("heartbeat") if event["at_ms"] > stopped]
    assert beats, "no heartbeat after SIGTERM"
    last = max(event["at_ms"] for event in busy.named("completed"))
    assert last - max(event["at_ms"] for event in beats) <= LEASE_MS / 2, "heartbeats ended before the handlers"

    for _ in range(ROUNDS):
        idle = cell.worker(broker.address, "idle", concurrency=NEW_ITEMS)
        idle.wait_for("connected")
        adding = threading.Thread(target=cell.enqueue, args=([{"sleep_ms": 50}] * NEW_ITEMS, "idle"))
        adding.start()
        cell.random.choice([adding.join, lambda: None])()
        idle.signal(signal.SIGTERM)
        idle.wait_for_end(MAX_SECONDS)
        adding.join()
        leased = cell.database.states("idle").get("leased", 0)
        assert leased == 0, f"{leased} rows are leased after the worker has ended"
    check_all(cell)
