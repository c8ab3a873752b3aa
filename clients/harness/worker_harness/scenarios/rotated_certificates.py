"""The client certificate in the files of a worker is replaced, and the broker then trusts only the new one."""

import shutil
import time

from worker_harness.cell import Cell
from worker_harness.certificates import Authority
from worker_harness.checks import check_all

# The library and the broker look at their files every 10 s.
READ_SECONDS = 12
TLS = """\
[server.tls]
certificate = "{certificate}"
key = "{key}"
client_authorities = "authorities.crt"
client_certificates = "required"
[auth]
[[auth.identities]]
name = "worker"
dns = "worker.example"
roles = {{ worker = ["work"], producer = ["work"] }}
"""


def run(cell: Cell) -> None:
    server, old, new = (Authority(cell.folder / name, name) for name in ("server", "old", "new"))
    certificate, key = server.sign("broker", "127.0.0.1")
    authorities = cell.folder / "authorities.crt"
    authorities.write_text(old.certificate.read_text() + new.certificate.read_text())
    broker = cell.broker(more=TLS.format(certificate=certificate, key=key))
    new_files = new.sign("worker", "worker.example")
    cell.use_tls(server.certificate, *new_files)
    files = [cell.folder / "worker.crt", cell.folder / "worker.key"]
    for source, target in zip(old.sign("worker", "worker.example"), files, strict=True):
        shutil.copy(source, target)
    worker = cell.worker(
        broker.address, ca_file=str(server.certificate), cert_file=str(files[0]), key_file=str(files[1]), wait_ms=1_000
    )
    cell.enqueue([{}] * 10)
    worker.wait_for("completed", 10)
    for source, target in zip(new_files, files, strict=True):
        shutil.copy(source, target)
    time.sleep(READ_SECONDS)
    authorities.write_text(new.certificate.read_text())
    time.sleep(READ_SECONDS)
    cell.enqueue([{}] * 10)
    worker.wait_for("completed", 20, seconds=30)
    assert worker.ask("health")["ok"]
    worker.finish()
    assert cell.database.states("work") == {"completed": 20}
    check_all(cell)
