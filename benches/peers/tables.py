#!/usr/bin/env python3
"""Prints the results of `run` as Markdown: the machine, the figures side by side, the versions, the skipped peers.

tables.py FOLDER COMMAND; the folder contains results.tsv, versions.tsv, skipped.tsv and machine-….json.
"""

import json
import os
import sys
from collections import Counter
from statistics import median
from typing import NamedTuple


class Run(NamedTuple):
    """One measurement of a peer, and the one of lease-broker just before it."""

    name: str
    case: str
    round: str
    clients: str
    batch: str
    words: str
    items: str
    rate: str
    its_items: str
    its_rate: str


def rows(folder: str, file: str) -> list[list[str]]:
    path = os.path.join(folder, file)
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def number(value: float) -> str:
    """Formats with three digits, as more would only show noise."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def times(value: float) -> str:
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f}"


def spread(values: list[float], form=number, unit: str = "") -> str:
    if not values:
        return "–"
    if len(values) == 1:
        return form(values[0]) + unit
    return f"{form(median(values))}{unit} ({form(min(values))} – {form(max(values))})"


def machine(folder: str) -> str:
    facts = []
    for when in ("before", "after"):
        with open(os.path.join(folder, f"machine-{when}.json"), encoding="utf-8") as file:
            facts.append(json.load(file))
    before, after = facts
    return (
        f"Measured on {before['date']}: {before['cores']} cores of {before['cpu']}, {before['memory_gib']} GiB, "
        f"{before['system']}, Linux {before['kernel']}, {before['file_system']}; {before['fdatasync_per_second']:,} fdatasync "
        f"of 4 KiB per second before the runs and {after['fdatasync_per_second']:,} after; load average before: "
        f"{before['load_average']}."
    )


def figures(runs: list[Run]) -> list[str]:
    cases: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        cases.setdefault((run.name, run.case), []).append(run)
    lines = [
        "| system | clients | items per call | items per run | items/s | lease-broker, same rounds | lease-broker is |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (name, _), of_case in cases.items():
        first = of_case[0]
        rates = [float(run.rate) for run in of_case if run.rate]
        beside = [float(run.its_rate) for run in of_case if run.its_rate]
        # Ratios of pairs, not of medians: a disturbance of the machine affects both runs of a pair.
        ratios = [float(run.its_rate) / float(run.rate) for run in of_case if run.rate and run.its_rate]
        items = number(int(first.items))
        if first.its_items and first.its_items != first.items:
            items += f" / {number(int(first.its_items))}"
        cells = [f"{name}, {first.words}", first.clients, first.batch, items]
        cells += [spread(rates), spread(beside), spread(ratios, times, " ×")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    folder, command = sys.argv[1:3]
    runs = [Run(*row) for row in rows(folder, "results.tsv")]
    rounds = len({run.round for run in runs})
    out = [machine(folder), ""]
    out += [f"`{command}`; median (least – most) of {rounds} round{'s' if rounds != 1 else ''}.", ""]
    out += [*figures(runs), "", "| system | version |", "|---|---|"]
    out += [f"| {name} | {version} |" for name, version in rows(folder, "versions.tsv")]
    skipped = rows(folder, "skipped.tsv")
    if skipped:
        out += ["", "Not measured, or not completely:", ""]
        out += [
            f"- {name}: {reason}{f' {count} times' if count > 1 else ''}"
            for (name, reason), count in Counter(map(tuple, skipped)).items()
        ]
    print("\n".join(out))


if __name__ == "__main__":
    main()
