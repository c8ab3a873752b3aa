"""Runs the cells of the matrix, several at a time, and prints it."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from worker_harness.cell import Cell
from worker_harness.languages import Language
from worker_harness.scenarios import SCENARIOS

_WIDTH = 9


@dataclass
class Outcome:
    """How a cell has ended."""

    word: str
    """passed, failed or skipped."""
    reason: str = ""
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """The parameters of all cells."""

    binary: str
    seed: int
    quick: bool
    jobs: int


_printing = threading.Lock()


def run_matrix(run: Run, languages: Sequence[Language], numbers: Sequence[int]) -> bool:
    """Runs the scenarios for the languages and prints the matrix. Returns False if a cell has failed."""
    skipped = build(languages)
    # The long ones have high numbers. Begun early, they do not run alone at the end.
    cells = [
        (number, language) for number in reversed(numbers) for language in languages if language.name not in skipped
    ]
    outcomes: dict[tuple[int, str], Outcome] = {}

    def note(number: int, language: Language) -> None:
        outcome = outcomes[number, language.name] = run_cell(run, number, language)
        with _printing:
            print(f"{number:2} {language.name:8} {outcome.word} after {outcome.seconds:.1f} s", flush=True)
            for text in (*outcome.notes, *outcome.reason.splitlines()):
                print(f"     {text}", flush=True)

    with ThreadPoolExecutor(run.jobs) as pool:
        for done in [pool.submit(note, *cell) for cell in cells if not SCENARIOS[cell[0]].alone]:
            done.result()
    for cell in cells:
        if SCENARIOS[cell[0]].alone:
            note(*cell)
    for number in numbers:
        for name, reason in skipped.items():
            outcomes[number, name] = Outcome("skipped", reason)
    print_matrix(outcomes, languages, numbers)
    return all(outcome.word != "failed" for outcome in outcomes.values())


def build(languages: Sequence[Language]) -> dict[str, str]:
    """Builds the conformance programs. Returns the reasons for which languages are skipped."""
    reasons: dict[str, str | None] = {}
    for language in languages:
        if language.folder not in reasons:
            reasons[language.folder] = language.build()
    return {language.name: reason for language in languages if (reason := reasons[language.folder]) is not None}


def run_cell(run: Run, number: int, language: Language) -> Outcome:
    """Runs a scenario. Keeps its folder if it fails."""
    folder = Path(tempfile.mkdtemp(prefix=f"lease-broker-{number}-{language.name}-"))
    cell = Cell(language, run.binary, folder, run.seed, run.quick)
    begun = time.monotonic()
    try:
        SCENARIOS[number].run(cell)
        outcome = Outcome("passed")
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        lines = [
            f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in where if "harness" in frame.filename
        ]
        text = f"{type(error).__name__}: {error}"[:2000]
        outcome = Outcome("failed", f"{text}\nat {' > '.join(lines)}\njournals: {folder}")
    outcome.seconds = time.monotonic() - begun
    outcome.notes = cell.notes
    cell.close()
    if outcome.word == "passed":
        shutil.rmtree(folder)
    return outcome


def print_matrix(
    outcomes: dict[tuple[int, str], Outcome], languages: Sequence[Language], numbers: Sequence[int]
) -> None:
    """Prints a row per scenario and a column per language."""
    print()
    print(f"{'':28}" + "".join(f"{language.name:{_WIDTH}}" for language in languages))
    for number in numbers:
        words = "".join(f"{outcomes[number, language.name].word:{_WIDTH}}" for language in languages)
        print(f"{number:2} {SCENARIOS[number].name:25}{words}".rstrip())
    for language in languages:
        reasons = {o.reason for (_, name), o in outcomes.items() if name == language.name and o.word == "skipped"}
        for reason in reasons:
            print(f"skipped: {language.name}: {reason}")
    counts = {word: sum(o.word == word for o in outcomes.values()) for word in ("passed", "failed", "skipped")}
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
