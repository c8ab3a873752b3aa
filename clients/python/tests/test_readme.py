"""The worker of README.md, run as it is written there. Only the port of the broker differs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import find_binary, rows

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(language: str, number: int = 0) -> str:
    """Returns a block of code."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return blocks[number]


def test_worker_of_the_readme_ships_orders(tmp_path: Path) -> None:
    import sqlite3

    binary = find_binary()
    connection = sqlite3.connect(tmp_path / "orders.db")
    connection.executescript(block("sql"))
    connection.close()
    (tmp_path / "orders.toml").write_text(block("toml"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "lease-broker").symlink_to(binary)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        "LEASE_BROKER_SERVER__LISTEN": "127.0.0.1:0",
        "LEASE_BROKER_ADMIN__LISTEN": '""',
    }
    apply, serve, work = re.findall(r"^\$ (lease-broker .*|python .*)$", block("console"), re.MULTILINE)
    subprocess.run(apply, shell=True, check=True, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    serve = "exec " + serve.removesuffix(" &")
    broker = subprocess.Popen(serve, shell=True, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    assert broker.stdout is not None
    found = re.search(r"listens on ([^ ,]+)", broker.stdout.readline())
    assert found is not None
    (tmp_path / "worker.py").write_text(block("python").replace("127.0.0.1:50051", found[1]))
    work = work.replace("python", f"exec {sys.executable}", 1)
    worker = subprocess.Popen(work, shell=True, cwd=tmp_path, env=environment)
    try:
        database = tmp_path / "orders.db"
        until = time.monotonic() + 30
        while rows(database, "SELECT count(*) FROM Orders WHERE lease_state IN (3, 4)") != [(3,)]:
            assert time.monotonic() < until, rows(database, "SELECT * FROM Orders")
            time.sleep(0.05)
        assert rows(database, "SELECT Order_ID, Label, lease_state, lease_error FROM Orders ORDER BY 1") == [
            (1, "order 1 for Ada", 3, None),
            (2, None, 4, "DeadLetter: no customer"),
            (3, "order 3 for Edsger", 3, None),
        ]
        assert rows(database, "SELECT order_id FROM mail ORDER BY 1") == [(1,), (3,)]
        worker.terminate()
        assert worker.wait(10) == 0
    finally:
        worker.kill()
        worker.wait()
        broker.kill()
        broker.wait()
        broker.stdout.close()


def test_worker_of_the_readme_has_at_most_twenty_lines() -> None:
    assert len(block("python").splitlines()) <= 20


@pytest.mark.parametrize("number", range(len(re.findall("```python", README))))
def test_code_of_the_readme_compiles(number: int) -> None:
    compile(block("python", number), "README.md", "exec")
