"""A worker whose process was stopped loses its lease to another one. Then an operator cancels a lease."""

import signal
import time

from worker_harness.broker import Broker
from worker_harness.cell import Cell, Queue
from worker_harness.checks import check_all
from worker_harness.database import COMPLETED
from worker_harness.worker import now_ms

LEASE_MS, STOPPED_SECONDS = 2_000, 4
# So long that the handler has not ended when the process wakes.
HANDLER_MS = 8_000
MAX_DELAY_MS = 1_000
REASON = "maintenance"


def run(cell: Cell) -> None:
    broker = cell.broker(Queue(lease="2s"))
    stopped = cell.worker(broker.address, lease_ms=LEASE_MS)
    [key] = cell.enqueue([{"sleep_ms": HANDLER_MS, "effect": "pay"}])
    stopped.wait_for("started", key=key)
    stopped.signal(signal.SIGSTOP)
    other = cell.worker(broker.address, lease_ms=LEASE_MS)
    time.sleep(STOPPED_SECONDS)
    woken = stopped.signal(signal.SIGCONT)
    cancelled = stopped.wait_for("cancelled", key=key)
    assert cancelled["cause"] == "lease_lost", cancelled
    assert cancelled["at_ms"] - woken <= MAX_DELAY_MS, f"cancelled {cancelled['at_ms'] - woken:.0f} ms after it woke"
    other.wait_for("completed", key=key)
    assert settlements_of_lost_leases(broker) == 0, "the first worker has settled a lease that it had lost"
    other.finish()

    [key2] = cell.enqueue([{"sleep_ms": 4_000}])
    stopped.wait_for("started", key=key2)
    cancelled_at = now_ms()
    broker.cancel("work", key2, REASON)
    cancelled = stopped.wait_for("cancelled", key=key2)
    assert cancelled["cause"] == "lease_lost", cancelled
    assert cancelled["at_ms"] - cancelled_at <= MAX_DELAY_MS, cancelled
    [lost] = stopped.named("lost", key2)
    assert lost["reason"] == REASON, lost
    stopped.wait_for("completed", key=key2)
    stopped.finish()
    assert settlements_of_lost_leases(broker) == 0, "a cancelled lease was settled"
    found = [(row.key, row.state, row.attempt, row.fence) for row in cell.database.rows("work")]
    assert found == [(key, COMPLETED, 2, 2), (key2, COMPLETED, 2, 2)], found
    check_all(cell)


def settlements_of_lost_leases(broker: Broker) -> float:
    """Returns the number of leases that were settled although they were lost.

    A heartbeat does not settle. One that meets the completion of its leases is refused too, and means nothing.
    """
    name = "lease_broker_settlement_refused_total"
    return broker.metric(name) - broker.metric(name, 'operation="heartbeat"')
