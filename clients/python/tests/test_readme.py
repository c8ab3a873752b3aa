"""The fragments of README.md. `tests/documents` of the repository runs its programs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_code_of_the_readme_compiles(code: str) -> None:
    compile(code, "README.md", "exec")
