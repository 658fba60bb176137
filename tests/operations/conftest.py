from __future__ import annotations

from pathlib import Path

import pytest
from small_node import SHELLS, SmallNode


@pytest.fixture
def node(tmp_path: Path) -> SmallNode:
    return SmallNode(tmp_path / "node")


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    shell: list[str] = request.param
    return shell
