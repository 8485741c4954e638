from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from include.cli.check import check, command
from include.errors import SettingsError, Terminal
from include.settings.deployment import Deployment
from include.settings.environment import PROJECT_ROOT
from tests.support.shipped_environment import ENV


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROJECT_ROOT / "include" / "deployment", tmp_path / "deployment"))


def _edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_projects_own_deployment_is_right(folder: Path) -> None:
    found = check(Deployment.load(folder, ENV))
    assert found["sources"] == ["ads", "shop"]
    assert found["documents"] == ["assembled_order"]
    assert found["applications"] == [
        "assemble_orders",
        "index_joined",
        "index_orders",
        "join_shop",
        "lake_backup",
        "lake_partition",
        "lake_tables",
        "process_scooters",
    ]
    assert found["eventtime"] == ["scooter_status"]
    assert found["joins"] == [
        "advertisers",
        "business_reviews",
        "order_lines",
        "order_rows",
        "order_rows_paid",
        "order_rows_sold",
    ]
    assert found["indexes"] == ["advertisers", "order_lines", "orders"]
    assert found["dark_rows"] == ["order_lines"]
    assert found["lake"] == ["by_date", "raw"]
    assert found["tables"] == ["shop"]


def test_what_documents_show_masked_and_what_as_it_is_has_a_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    assert "assembled_order: " not in CliRunner().invoke(command, ["--deployment", str(folder)]).output
    policy = "    filter:\n      addresses: {masks: {street: null, city: {keep_last: 1}}}\n"
    _edit(folder / "sources.yaml", "    databases: [shop]\n", "    databases: [shop]\n" + policy)
    _edit(folder / "documents.yaml", "    partitions: 4\n", "    partitions: 4\n    unmasked: [addresses.city]\n")
    answer = CliRunner().invoke(command, ["--deployment", str(folder)])
    assert "assembled_order: masked addresses.street (null); unmasked addresses.city" in answer.output.splitlines()
    told = json.loads(CliRunner().invoke(command, ["--deployment", str(folder), "--json"]).output)["masks"]
    assert told == {"assembled_order": {"masked": ["addresses.street (null)"], "unmasked": ["addresses.city"]}}


def test_a_search_by_a_masked_user_is_refused(folder: Path) -> None:
    policy = "    filter:\n      orders: {masks: {user_id: hash}}\n    mask_salt: 0123456789abcdef\n"
    _edit(folder / "sources.yaml", "    databases: [shop]\n", "    databases: [shop]\n" + policy)
    with pytest.raises(SettingsError) as refused:
        check(Deployment.load(folder, ENV))
    assert refused.value.details["path"] == "searches.orders.user"


def test_a_mapping_without_the_metadata_fields_is_refused_before_an_index_is_made(folder: Path) -> None:
    _edit(folder / "mappings" / "orders.yaml", "d0: {type: long}", "d0: {type: integer}")
    with pytest.raises(Terminal, match=r"mappings/orders\.yaml.*d0"):
        check(Deployment.load(folder, ENV))


def test_a_section_that_no_stage_reads_is_refused_by_name(folder: Path) -> None:
    (folder / "more.yaml").write_text("sorces:\n  shop: {}\n", encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        check(Deployment.load(folder, ENV))
    assert refused.value.details["path"] == "sorces"
    assert refused.value.details["file"].endswith("more.yaml")
    assert "sources" in refused.value.details["allowed"]


@pytest.mark.parametrize(
    ("file", "old", "new", "path"),
    [
        (
            "documents.yaml",
            "application: assemble_orders",
            "application: assemble_order",
            "assembled_order.application",
        ),
        ("indexes.yaml", "application: index_orders", "application: index_order", "orders.application"),
        ("indexes.yaml", "generation: 2", "generation: 2\n    coerced: [order.prize]", "orders.coerced"),
        ("documents.yaml", "source: shop", "source: shops", "assembled_order"),
        ("audits.yaml", "index: orders", "index: order", "assembled_order.index"),
        ("searches.yaml", "index: orders", "index: order", "searches.orders.index"),
        ("searches.yaml", "time: created_at", "time: made_at", "searches.orders.time"),
        ("dark_rows.yaml", "rows: order_lines", "rows: order_line", "dark_rows.order_lines.rows"),
        ("dark_rows.yaml", "documents: orders", "documents: order_lines", "dark_rows.order_lines"),
        ("dark_rows.yaml", "name: partner_name", "name: partners_name", "dark_rows.order_lines"),
        ("dark_rows.yaml", "lines.price:", "lines.prize:", "dark_rows.order_lines"),
        ("dark_rows.yaml", "of: order_row_id", "of: partner.name", "dark_rows.order_lines"),
        ("sources.yaml", "databases:", "database:", "sources.shop"),
        ("lake.yaml", "application: lake_backup", "application: lake_backups", "lake.raw.application"),
        ("lake.yaml", "source.ts_ms, unit: ms", "source.ts_ms, unit: instants", "lake.by_date.rules.0.versions.0"),
        ("alerts.yaml", "to: [", "too: [", "alerts"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused_with_its_place(
    folder: Path, file: str, old: str, new: str, path: str
) -> None:
    _edit(folder / file, old, new)
    with pytest.raises(SettingsError) as refused:
        check(Deployment.load(folder, ENV))
    assert path in refused.value.details["path"]
    assert refused.value.details["line"] > 0
    assert Path(refused.value.details["file"]).name == file
