"""The conformance program: a worker whose handlers are data. clients/harness/README.md has its protocol."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handlers import Handlers
from journal import Journal
from raw_loop import run_raw_loop

from lease_broker import Worker, tls


def seconds(options: dict[str, Any], name: str) -> float | None:
    """Returns an option in milliseconds as seconds."""
    return options[name] / 1000 if name in options else None


def make_worker(options: dict[str, Any], journal: Journal) -> Worker:
    """Makes the worker that the options of the command `start` describe."""
    arguments: dict[str, Any] = {
        "concurrency": options.get("concurrency", 1),
        "batch": options.get("batch"),
        "worker_id": options.get("worker_id"),
        "lease": seconds(options, "lease_ms"),
        "heartbeat": options.get("heartbeat", True),
        "time_limit": seconds(options, "time_limit_ms"),
        "max_stuck": options.get("max_stuck"),
    }
    if "ca_file" in options:
        arguments["credentials"] = tls(Path(options["ca_file"]), Path(options["cert_file"]), Path(options["key_file"]))
    for name in ("wait", "grace", "stuck_after"):
        if (value := seconds(options, f"{name}_ms")) is not None:
            arguments[name] = value
    handlers = Handlers(journal, options.get("effects"))
    kind: Callable[..., Any]
    if options.get("noop"):
        # Events are only counted.
        worker = Worker(options["address"], options["queue"], **arguments)
        kind = handlers.noop_async if options.get("kind") == "async" else handlers.noop
        threading.Thread(target=report_speed, args=(worker, journal, options.get("until", 0)), daemon=True).start()
    else:
        worker = Worker(options["address"], options["queue"], **arguments, on_event=journal.on_event)
        if options.get("batch"):
            kind = handlers.handle_batch_async if options.get("kind") == "async" else handlers.handle_batch
        else:
            kind = handlers.handle_async if options.get("kind") == "async" else handlers.handle
    worker.handler(kind)
    return worker


def report_speed(worker: Worker, journal: Journal, until: int) -> None:
    """Reports the time that the items took, and stops the worker."""
    journal.ready.wait()
    begun, cpu = time.monotonic(), time.process_time()
    while worker.counters().get("completed", 0) < until:
        time.sleep(0.005)
    seconds, cpu_seconds = time.monotonic() - begun, time.process_time() - cpu
    journal.write("done", items=until, seconds=seconds, cpu_seconds=cpu_seconds)
    worker.request_stop()


def read_commands(worker: Worker, journal: Journal) -> None:
    """Obeys the commands on standard input. Its end is a stop."""
    for line in sys.stdin:
        command = json.loads(line)
        if command["cmd"] == "stop":
            worker.request_stop(command.get("grace_ms", 20_000) / 1000)
        elif command["cmd"] == "health":
            journal.write("health", ok=worker.health())
        elif command["cmd"] == "counters":
            journal.write("counters", counters=worker.counters())
    worker.request_stop()


def main() -> None:
    """Runs a worker or the raw loop."""
    options = json.loads(sys.stdin.readline())["options"]
    journal = Journal()
    if options.get("raw"):
        run_raw_loop(options, journal)
        return
    worker = make_worker(options, journal)
    threading.Thread(target=read_commands, args=(worker, journal), daemon=True).start()
    journal.write("ready")
    journal.ready.set()
    worker.run()


if __name__ == "__main__":
    main()
