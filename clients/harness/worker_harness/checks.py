"""Checks that hold in every scenario, over the journals of all workers and the database."""

from __future__ import annotations

from collections import defaultdict

from worker_harness.cell import Cell
from worker_harness.database import LEASED


def check_all(cell: Cell, leased: int = 0) -> None:
    """Raises `AssertionError` if a rule is broken. `leased`: the number of rows that the scenario leaves leased."""
    for worker in cell.workers:
        assert worker.ended, f"{worker.name} was not stopped by the scenario"
    for queue in cell.queues:
        check_starts(cell, queue.name)
        check_completions(cell, queue.name, queue.recurs)
    check_effects(cell)
    found = sum(cell.database.states(queue.name).get("leased", 0) for queue in cell.queues)
    assert found == leased, f"{found} rows are leased at the end, expected {leased}"


def check_starts(cell: Cell, queue: str) -> None:
    """A lease starts a handler once, and after a newer lease of the item has started, no older one does."""
    starts = defaultdict(list)
    for worker in cell.workers:
        if worker.queue == queue:
            for event in worker.named("started"):
                starts[event["key"]].append((event["at_ms"], event["fence"], worker.name))
    for key, of_key in starts.items():
        fences = [fence for _, fence, _ in sorted(of_key)]
        assert fences == sorted(set(fences)), f"item {key} was started with the fences {fences}: {sorted(of_key)}"


def check_completions(cell: Cell, queue: str, recurs: bool) -> None:
    """An item is completed once, by the lease that the database names, and as often as the database says."""
    completed: dict[str, list[int]] = defaultdict(list)
    for worker in cell.workers:
        if worker.queue == queue:
            for event in worker.named("completed"):
                completed[event["key"]].append(event["fence"])
    for key, fences in completed.items():
        assert len(set(fences)) == len(fences), f"item {key} was completed twice by one lease: {fences}"
        assert recurs or len(fences) == 1, f"item {key} was completed by the leases {fences}"
    if queue not in cell.database.watched:
        return
    claims = defaultdict(set)
    for change in cell.database.history(queue):
        if change.state == LEASED:
            claims[change.key].add(change.fence)
    for key, fences in completed.items():
        assert set(fences) <= claims[key], f"item {key}: completed by {fences}, leased by {claims[key]}"


def check_effects(cell: Cell) -> None:
    """The effects of an item are in the order of its leases."""
    last: dict[tuple[str, str], int] = {}
    for line in cell.effects.read_text().splitlines():
        effect, key, fence = line.split()
        assert int(fence) >= last.get((effect, key), 0), f"effect {effect} of item {key}: {fence} after a greater one"
        last[effect, key] = int(fence)
