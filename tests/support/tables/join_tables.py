"""Topics of a `JoinHarness` that are kept as tables of the lake, and whether the tables are what the world has."""

from __future__ import annotations

from typing import Any

import duckdb
import yaml

from include.lake.tables.delta_log import storage_options
from include.lake.tables.generation import generation_folder, generations_of
from include.settings.connections import StoreSettings
from include.settings.deployment import Deployment
from tests.support.joins.harness import JoinHarness
from tests.support.tables.duckdb_reader import Row, delta_rows, duck

__all__ = ["APPLICATION", "KeptTables"]

APPLICATION = "lake_tables"


class KeptTables:
    """Two tables of change topics and one of a plain topic, declared in the world's deployment."""

    def __init__(self, world: JoinHarness) -> None:
        self.world = world
        values = yaml.safe_load((world.folder / "all.yaml").read_text())
        values["applications"][APPLICATION] = {"entry": "spark_apps/lake_tables.py"}
        copied = [f"cdc.shop{world.name}.*", f"cdc.ads{world.name}.*"]
        values["tables"] = {
            name: {"application": APPLICATION, "topics": topics, "prefix": prefix, "buckets": buckets, "every_s": 0.5}
            for name, topics, prefix, buckets in (
                ("copied", copied, "tables", 3),
                ("plain", [world.owners_topic], "plain", 2),
            )
        }
        (world.folder / "all.yaml").write_text(yaml.safe_dump(values))
        self._duck: duckdb.DuckDBPyConnection | None = None

    @property
    def tables(self) -> list[tuple[str, str, str, dict[int, Row]]]:
        """Prefix, topic, key and expected rows of each."""
        world = self.world
        return [
            ("tables", world.shop.topic("reviews"), "review_id", world.reviews),
            ("tables", world.ads.topic("businesses"), "business_id", world.businesses),
            ("plain", world.owners_topic, "owner_id", world.owners),
        ]

    def place(self, prefix: str, topic: str) -> tuple[str, dict[str, str]] | None:
        """Where the served generation is, and how delta-rs reads it; None before there is one."""
        found = generations_of(self.world.bucket, prefix, topic)
        if found is None or not found.serving:
            return None
        uri = f"s3://{self.world.name}/{generation_folder(prefix, topic, found.serving)}"
        return uri, storage_options(self._store)

    def held(self, prefix: str, topic: str, key: str, version: int | None = None) -> dict[Any, Row] | None:
        """The rows of a table by key, as a reader that knows nothing of Lyrebird finds them."""
        place = self.place(prefix, topic)
        if place is None:
            return None
        self._duck = self._duck or duck(self._store)
        return delta_rows(self._duck, place[0], key, version)

    def equal(self) -> bool:
        """Whether all tables are what the world has."""
        return all(self.held(prefix, topic, key) == rows for prefix, topic, key, rows in self.tables)

    @property
    def _store(self) -> StoreSettings:
        return Deployment.load(self.world.folder).one("store", StoreSettings)
