"""One run of a scenario for one language: its broker, proxies, workers and folder."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from worker_harness.api import Api
from worker_harness.broker import Broker
from worker_harness.database import Database
from worker_harness.languages import Language
from worker_harness.proxy import Proxy
from worker_harness.worker import WorkerProcess

_CONFIGURATION = """\
[store]
path = "queues.db"
[server]
drain_delay = "{drain_delay}"
[admin]
listen = "127.0.0.1:0"
[queue_defaults]
backoff = {{ initial = "10m", factor = 1.0, max = "10m", jitter = 0.0 }}
"""
_QUEUE = """\
[queues.{name}]
managed_columns = {{ payload = "text", result = "text" }}
checkpoint = true
lease_duration = "{lease}"
max_attempts = {max_attempts}
on_complete = {on_complete}
{writable}
"""


class Queue:
    """The configuration of a queue. Its table has the columns id, payload and result."""

    def __init__(
        self, name: str = "work", *, lease: str = "60s", max_attempts: int = 10, on_complete: str = '"keep"'
    ) -> None:
        self.name = name
        self.recurs = "recur" in on_complete
        self.deletes = on_complete == '"delete"'
        # The broker refuses columns that a worker writes if the row is deleted.
        writable = "" if self.deletes else 'writable = ["result"]'
        self.text = _QUEUE.format(
            name=name, lease=lease, max_attempts=max_attempts, on_complete=on_complete, writable=writable
        )


class Cell:
    """The processes of one run. Everything that was started ends with `close`."""

    def __init__(self, language: Language, binary: str, folder: Path, seed: int, quick: bool) -> None:
        self.language = language
        self.folder = folder
        self.quick = quick
        self.random = random.Random(seed)
        self.database = Database(folder / "queues.db")
        self.queues: list[Queue] = []
        self.brokers: list[Broker] = []
        self.workers: list[WorkerProcess] = []
        self.notes: list[str] = []
        """Figures that the matrix prints below its cells."""
        self.effects = folder / "effects"
        self.effects.touch()
        self._binary = binary
        self._apis: dict[str, Api] = {}
        self._credentials: grpc.ChannelCredentials | None = None
        self._proxies: list[Proxy] = []

    def broker(
        self, *queues: Queue, drain_delay: str = "0s", watch: bool = True, more: str = "", listen: str = "127.0.0.1:0"
    ) -> Broker:
        """Starts a broker. The second one serves the queues of the first. `watch`: record the changes of states.

        `more`: text for the end of the configuration.
        """
        first = not self.brokers
        if first:
            self.queues = list(queues) or [Queue()]
        configuration = _CONFIGURATION.format(drain_delay=drain_delay)
        configuration += "".join(queue.text for queue in self.queues) + more
        broker = Broker(self._binary, self.folder, f"broker{len(self.brokers) + 1}", configuration)
        broker.address = listen
        self.brokers.append(broker)
        broker.start()
        if first and watch:
            for queue in self.queues:
                self.database.watch(queue.name)
        return broker

    def proxy(self, broker: Broker) -> Proxy:
        """Starts a proxy in front of a broker."""
        proxy = Proxy(broker.address)
        self._proxies.append(proxy)
        return proxy

    def use_tls(self, authority: Path, certificate: Path, key: Path) -> None:
        """Makes the harness's own connections use TLS, with this client certificate."""
        files = [file.read_bytes() for file in (authority, key, certificate)]
        self._credentials = grpc.ssl_channel_credentials(*files)

    def hosts(self, names: dict[str, str]) -> Path:
        """Returns a file in the form of /etc/hosts. A worker with the option `hosts` has it in its place."""
        file = self.folder / "hosts"
        file.write_text("".join(f"{number} {name}\n" for name, number in names.items()))
        return file

    def worker(
        self, address: str | Sequence[str], queue: str = "work", hosts: Path | None = None, **options: Any
    ) -> WorkerProcess:
        """Starts a worker and waits until it runs."""
        name = f"worker{len(self.workers) + 1}"
        options = {
            "address": address,
            "queue": queue,
            "worker_id": name,
            "effects": str(self.effects),
            **self.language.options,
            **options,
        }
        worker = WorkerProcess(self.language.program, self.folder, name, options, hosts)
        self.workers.append(worker)
        worker.wait_for("ready")
        return worker

    def api(self, broker: Broker | None = None) -> Api:
        """Returns the harness's connection to a broker, by default the first one."""
        address = (broker or self.brokers[0]).address
        if address not in self._apis:
            self._apis[address] = Api(address, self._credentials)
        return self._apis[address]

    def enqueue(self, payloads: Sequence[dict[str, Any]], queue: str = "work", traces: Sequence[int] = ()) -> list[str]:
        """Adds an item per payload and returns the keys."""
        return self.api().enqueue(queue, payloads, traces)

    def close(self) -> None:
        """Ends everything that was started."""
        for worker in self.workers:
            worker.discard()
        for proxy in self._proxies:
            proxy.close()
        for api in self._apis.values():
            api.close()
        for broker in self.brokers:
            broker.kill()
