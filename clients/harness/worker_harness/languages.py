"""The worker libraries and their conformance programs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLIENTS = Path(__file__).resolve().parents[2]
_TOOLCHAIN_MISSING = 77


@dataclass(frozen=True)
class Language:
    """A column of the matrix: a library and the options that select the kind of its worker."""

    name: str
    folder: str
    options: dict[str, Any] = field(default_factory=dict)
    warm_up_calls: int = 0
    """Scenario 18: the calls before the measurement, in which the language's compiler translates the program."""
    min_throughput_ratio: float = 0.8
    """Scenario 18: the items per second of the worker, divided by those of the loop over generated stubs."""

    @property
    def program(self) -> Path:
        """The conformance program."""
        return CLIENTS / self.folder / "conformance" / "run"

    def build(self) -> str | None:
        """Prepares the program. Returns the reason for which the language is skipped, if it is."""
        build = self.program.with_name("build")
        if not build.exists():
            return f"clients/{self.folder}/conformance is missing"
        done = subprocess.run([build], capture_output=True, text=True)
        if done.returncode == _TOOLCHAIN_MISSING:
            return (done.stdout + done.stderr).strip().removeprefix("skipped: ") or "the toolchain is missing"
        if done.returncode != 0:
            raise RuntimeError(f"{build} failed:\n{done.stdout}{done.stderr}")
        return None


LANGUAGES = (
    Language("python", "python", {"kind": "threads"}, min_throughput_ratio=0.6),
    Language("asyncio", "python", {"kind": "async"}),
    Language("node", "node", warm_up_calls=400),
    Language("go", "go"),
    Language("java", "java", warm_up_calls=1_000),
    Language("rust", "rust"),
)
