"""Measures processes of a worker library that share one queue: items per second, and the processor time of broker and workers.

Handlers return immediately. Each shape is a number of processes, and the slots of each. The shapes alternate in one session, and
the table has medians, with the lowest and the highest. Each item must have been completed once.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from worker_harness.cell import Cell
from worker_harness.languages import LANGUAGES, Language

# Another program adds the items, in one transaction.
FILL = """
WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < ?)
INSERT INTO work (payload) SELECT '{}' FROM numbers
"""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def processor_time(process: int) -> float:
    """Returns the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def measure(broker: str, language: Language, processes: int, slots: int, items: int) -> dict[str, float]:
    """Runs the processes until all items are done. Returns items per second, and processor times in µs per item."""
    with tempfile.TemporaryDirectory() as folder:
        cell = Cell(language, broker, Path(folder), 0, False)
        try:
            served = cell.broker(watch=False)
            # The workers start on an empty queue, so that none of them works while others start. They never reach `until`.
            for _ in range(processes):
                cell.worker(served.address, concurrency=slots, until=2 * items, noop=True)
            before = processor_time(served.process_id)
            cell.database.query(FILL, items)
            start = None
            while (completed := cell.database.states("work").get("completed", 0)) < items:
                if start is None and completed > 0:
                    start = (time.monotonic(), completed)
                time.sleep(0.05)
            spent = processor_time(served.process_id) - before
            seconds, counted = time.monotonic() - start[0], items - start[1]
            assert served.metric("lease_broker_settlement_refused_total") == 0
            fences = {fence for (fence,) in cell.database.query("SELECT DISTINCT lease_fence FROM work")}
            assert fences == {1}, f"an item was claimed again: {fences}"
        finally:
            cell.close()
    return {"items/s": counted / seconds, "broker": spent / items * 1e6}


def main() -> None:
    names = [language.name for language in LANGUAGES]
    parser = argparse.ArgumentParser(prog="benches/processes/run", description=__doc__)
    parser.add_argument("--broker", default="target/release/lease-broker", help="the program (default: %(default)s)")
    parser.add_argument("--language", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument(
        "--shape", action="append", help="PROCESSESxSLOTS; may be repeated (default: 8x8 and 1x64)"
    )
    parser.add_argument("--items", type=int, default=20_000, help="items per run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each shape (default: %(default)s)")
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shape or ["8x8", "1x64"]]
    print("| library | processes | slots of each | items/s | broker, processor µs per item |")
    print("|---|--:|--:|--:|--:|", flush=True)
    for language in LANGUAGES:
        if language.name not in (options.language or names):
            continue
        if reason := language.build():
            print(f"| {language.name} | skipped: {reason} | | | |", flush=True)
            continue
        rounds = []
        for number in range(options.rounds):
            order = shapes if number % 2 == 0 else shapes[::-1]
            rounds.append({
                shape: measure(os.path.abspath(options.broker), language, *shape, options.items) for shape in order
            })
        for shape in shapes:
            rate = [run[shape]["items/s"] for run in rounds]
            spent = [run[shape]["broker"] for run in rounds]
            print(
                f"| {language.name} | {shape[0]} | {shape[1]} | {statistics.median(rate):,.0f}"
                f" ({min(rate):,.0f} to {max(rate):,.0f}) | {statistics.median(spent):.0f}"
                f" ({min(spent):.0f} to {max(spent):.0f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
