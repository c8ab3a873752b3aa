"""The wait of the settler for further endings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lease_broker.gathering import Gathering

_VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "gathering.json").read_text())


@pytest.mark.parametrize("case", _VECTORS["cases"], ids=lambda case: str(case["name"]))
def test_the_settler_gathers_as_the_vectors_say(case: dict[str, Any]) -> None:
    gathering = Gathering(case["slots"])
    for taken in case["handler_ms"]:
        gathering.note(taken / 1_000)
    assert gathering.wait(case["running"]) * 1_000 == case["wait_ms"]
