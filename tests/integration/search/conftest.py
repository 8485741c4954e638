from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.search.shop_search import ShopSearch, shop_search


@pytest.fixture(scope="session")
def world(elasticsearch_url: str, mariadb: Any) -> Iterator[ShopSearch]:
    """One for all tests of the folder: each begins with `index_all` if it needs the index to be as the database."""
    with shop_search(elasticsearch_url, mariadb) as made:
        yield made
