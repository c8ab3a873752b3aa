"""A broker comes back at another address of its name, as after the roll of a StatefulSet. The worker has a list."""

from pathlib import Path

from worker_harness.cell import Cell
from worker_harness.checks import check_all

# Java's virtual machine and its gRPC library each keep an address for 30 s.
MOVE_SECONDS = 100
ITEMS = 20


def run(cell: Cell) -> None:
    hosts = cell.hosts({"localhost": "127.0.0.2"})
    broker = cell.broker(listen="127.0.0.2:0")
    cell.enqueue([{}] * ITEMS)
    port = broker.address.rpartition(":")[2]
    # Nothing listens at the second one. A list is another case than a single name.
    worker = cell.worker([f"localhost:{port}", "127.0.0.1:1"], wait_ms=1_000, hosts=hosts)
    worker.wait_for("completed", ITEMS)
    broker.terminate()
    broker.address = f"127.0.0.3:{port}"
    broker.start()
    write_hosts(hosts, "127.0.0.3")
    cell.enqueue([{}] * ITEMS)
    worker.wait_for("completed", 2 * ITEMS, seconds=MOVE_SECONDS)
    worker.finish()
    assert cell.database.states("work") == {"completed": 2 * ITEMS}
    check_all(cell)


def write_hosts(file: Path, number: str) -> None:
    """Moves the name. The file keeps its inode, because it is mounted."""
    with file.open("w") as hosts:
        hosts.write(f"{number} localhost\n")
