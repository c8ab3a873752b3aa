"""Reads the arguments and runs the matrix."""

from __future__ import annotations

import argparse
import os
import random
import sys

from worker_harness.languages import LANGUAGES
from worker_harness.matrix import Run, run_matrix
from worker_harness.scenarios import SCENARIOS


def main() -> int:
    names = [language.name for language in LANGUAGES]
    parser = argparse.ArgumentParser(prog="run", description="Runs the scenarios for the worker libraries.")
    parser.add_argument("--language", action="append", choices=names, help="only this language; may be repeated")
    parser.add_argument(
        "--scenario", action="append", type=int, choices=SCENARIOS, help="only this one; may be repeated"
    )
    parser.add_argument("--seed", type=int, help="seed of the random choices; it is printed")
    parser.add_argument(
        "--broker", default=os.environ.get("LEASE_BROKER"), help="the broker's binary [env: LEASE_BROKER]"
    )
    parser.add_argument("--quick", action="store_true", help="shorten the scenarios 17 and 18")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="the number of cells that run at once")
    arguments = parser.parse_args()
    if not arguments.broker:
        parser.error("--broker or the environment variable LEASE_BROKER is required")
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    languages = [language for language in LANGUAGES if language.name in (arguments.language or names)]
    run = Run(os.path.abspath(arguments.broker), seed, arguments.quick, arguments.jobs)
    return 0 if run_matrix(run, languages, sorted(set(arguments.scenario or SCENARIOS))) else 1


if __name__ == "__main__":
    sys.exit(main())
