"""Certificates, made by the program openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """An authority in a folder: `ca.crt`, and the certificates that it has signed."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "ca.crt"
        self._run(
            "req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.crt", "-subj", f"/CN={name}", "-days", "2"
        )

    def sign(self, name: str, host: str) -> tuple[Path, Path]:
        """Returns the files of a new certificate for a host name or an IP address, and of its key."""
        kind = "IP" if host[0].isdigit() else "DNS"
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={kind}:{host}\nbasicConstraints=CA:FALSE\n")
        self._run("req", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signer = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        self._run("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signer)
        # The broker reports a key that every user of the host can read.
        (self.folder / f"{name}.key").chmod(0o600)
        return self.folder / f"{name}.crt", self.folder / f"{name}.key"

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)
