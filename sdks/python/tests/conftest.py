from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import serving


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with serving() as address:
        yield address
