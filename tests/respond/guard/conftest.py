from __future__ import annotations

import pytest

from attune.respond.guard import Guard, load_guard


@pytest.fixture(scope="session")
def guard() -> Guard:
    return load_guard()
