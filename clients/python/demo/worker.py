"""A worker of `lease-broker demo --language python`. The command passes: address, name, items per batch, journal file.

It computes the litres of rain of each row, writes them into the row, and adds them to the queue `outbox`. Its journal
has a line for each step with an item, written before the next step.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable

from lease_broker import Context, Event, FollowUp, Item, Result, Worker

ADDRESS, NAME, BATCH, JOURNAL = sys.argv[1:]
SECONDS_PER_ITEM = 0.003
ACTIONS = {"claimed": "claimed", "completed": "completed", "lost": "lost", "unknown": "lost"}


def write(action: str, keys: Iterable[str]) -> None:
    """Writes a line for each item, in one piece."""
    journal.write("".join(json.dumps({"key": key, "action": action}) + "\n" for key in keys).encode())


def record(event: Event) -> None:
    """Writes the events that the demo reads."""
    if event.key is not None and event.name in ACTIONS:
        write(ACTIONS[event.name], [event.key])


def process(items: list[Item], context: Context) -> dict[Item, Result]:
    """Processes a batch."""
    context.cancelled.wait(SECONDS_PER_ITEM * len(items))
    context.check()
    results = {item: result_of(item) for item in items}
    write("completing", [item.key for item in items])
    return results


def result_of(item: Item) -> Result:
    """Returns the result of a row."""
    litres = float(str(item.columns["Millimetres"])) * 1000
    row = {"event_id": item.columns["Event_ID"], "worker": NAME, "litres": litres}
    return Result(columns={"Litres": litres}, follow_ups=[FollowUp("outbox", row)])


def stop_at_end_of_input(worker: Worker) -> None:
    """Stops the worker when the demo closes standard input."""
    sys.stdin.read()
    worker.request_stop()


if __name__ == "__main__":
    with open(JOURNAL, "ab", buffering=0) as journal:
        worker = Worker(ADDRESS, "rainfall", process, batch=int(BATCH), worker_id=NAME, on_event=record)
        threading.Thread(target=stop_at_end_of_input, args=(worker,), daemon=True).start()
        worker.run()
