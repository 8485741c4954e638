"""`lyrebird search` on real servers: what people and programs read, and the exit codes."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import yaml
from click.testing import CliRunner, Result

from include.cli.search.commands import command
from include.errors import LyrebirdError
from include.settings.environment import PROJECT_ROOT
from tests.support.search.shop_search import ShopSearch

Run = Callable[..., Result]


@pytest.fixture
def run(world: ShopSearch, elasticsearch_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The shipped deployment, with the world's own index and database."""
    folder = shutil.copytree(PROJECT_ROOT / "include" / "deployment", tmp_path / "deployment")
    name = world.shop.database
    for file, section, entry in (
        ("indexes.yaml", "indexes", "orders"),
        ("documents.yaml", "documents", "assembled_order"),
        ("searches.yaml", "searches", "orders"),
    ):
        values = yaml.safe_load((folder / file).read_text(encoding="utf-8"))
        if section == "indexes":
            values[section][name] = values[section].pop(entry)
        elif section == "documents":
            values[section][entry]["database"] = name
        else:
            values[section][entry] |= {"index": name, "fresh": {"patience_ms": 50}}
        (folder / file).write_text(yaml.safe_dump(values), encoding="utf-8")
    (folder / "audits.yaml").unlink()
    names = {
        "DEPLOYMENT": str(folder),
        "ELASTICSEARCH": elasticsearch_url,
        "MYSQL_HOST": world.shop.host,
        "MYSQL_PORT": str(world.shop.port),
        "MYSQL_USER": world.shop.user,
        "MYSQL_PASSWORD": world.shop.password,
    }
    for each in ("KAFKA", "REGISTRY", "S3", "S3_ACCESS_KEY", "S3_SECRET_KEY"):
        names.setdefault(each, "nowhere:1")
    for each, value in names.items():
        monkeypatch.setenv(f"LYREBIRD_{each}", value)
    world.index_all()
    return lambda *arguments: CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_a_users_orders_are_a_table_and_where_they_come_from_stands_beside(run: Run, world: ShopSearch) -> None:
    user = next(iter(world.told().values()))["user_id"]
    expected = world.history(user)
    found = run("user", user, "--size", 1)
    assert found.exit_code == 0
    head, row = found.stdout.splitlines()
    assert head.split() == ["id", "created_at", "state", "total_price", "currency", "business_id", "lines"]
    first = expected[0]
    assert row.split()[:4] == [
        str(first["order_id"]),
        f"{first['created_at'][:19]}Z",
        first["state"],
        first["total_price"],
    ]
    assert f"{first['lines'][0]['quantity']} × {first['lines'][0]['name']}" in row
    assert "from the index, up to 0-" in found.stderr
    if len(expected) > 1:
        after = found.stderr.partition("--after '")[2].partition("'")[0]
        page = json.loads(run("user", user, "--after", after, "--json").stdout)
        assert [hit["body"] for hit in page["hits"]] == expected[1:]
    assert run("user", 999_999).stdout == "nothing found\n"


def test_an_own_write_is_shown_before_it_is_indexed(run: Run, world: ShopSearch) -> None:
    world.more(21, 2)
    newest = max(map(int, world.told()))
    user = world.told()[str(newest)]["user_id"]
    written = str(world.position().gtids)
    for option in (("--written", written), ("--latest", newest)):
        page = json.loads(run("user", user, "--json", *option).stdout)
        assert str(newest) in [hit["doc_id"] for hit in page["hits"]]
        assert page["seen"]["origin"] == "index+mysql"
    one = run("order", newest, "--written", written, "--json")
    assert json.loads(one.stdout)["order"] == world.told()[str(newest)]
    missing = run("order", newest)
    assert (missing.exit_code, missing.stderr) == (1, f"error: order {newest} is not in index {world.shop.database}\n")
    assert "not a MariaDB GTID" in str(run("user", user, "--written", "yesterday").exception)


def test_words_items_categories_and_places_are_asked_for(run: Run, world: ShopSearch) -> None:
    bodies = list(world.told().values())
    line = bodies[0]["lines"][0]
    words = line["name"].split()[0]
    found = json.loads(run("text", words, "--pieces", line["quantity"], "--size", 1000, "--json").stdout)
    assert str(bodies[0]["order_id"]) in [hit["doc_id"] for hit in found["hits"]]
    ranking = json.loads(run("popular", "--size", 1000, "--json").stdout)
    assert sum(row["lines"] for row in ranking["rows"]) == sum(len(body["lines"]) for body in bodies)
    table = run("categories", "--business", bodies[0]["business_id"])
    assert table.stdout.splitlines()[0].split() == ["category", "lines", "orders", "pieces"]
    place = bodies[0]["delivery_address"]["location"]
    near = json.loads(run("near", "--within", "100m", "--json", f"{place['lat']},{place['lon']}").stdout)
    assert near["hits"][0]["distance_m"] < 1
    box = f"{place['lat'] + 0.001},{place['lon'] - 0.001},{place['lat'] - 0.001},{place['lon'] + 0.001}"
    assert "nothing found" not in run("area", box).stdout
    assert run("near", "-89,1", "--json", "--within", "100m").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("near", "100,1"), "not degrees"),
        (("near", "1,1", "--within", "far"), "500m, 2km"),
        (("area", "1,1,2,2"), "north lies below"),
        (("text", "x", "--since", "soon"), "ISO 8601"),
        (("text", "x", "--equal", "state"), "--equal state=completed"),
        (("text", "x", "--equal", "colour=red"), "compared as a whole"),
        (("user", "7", "--in", "nobody"), "allowed=['orders']"),
        (("user", "7", "--after", "x"), "Give `next`"),
        (("invoice", "7"), "no index holds this entity"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_next_step(run: Run, arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, LyrebirdError)
    assert said in str(result.exception)


def test_a_dark_launch_gives_its_advice_as_text_json_page_and_exit_code(
    run: Run, world: ShopSearch, tmp_path: Path
) -> None:
    quick = ("--samples", 20, "--per-s", 100)
    clean = run("dark-launch", *quick)
    assert (clean.exit_code, clean.stdout.splitlines()[-1][:7]) == (0, "switch:")
    doc_id, body = next(iter(world.told().items()))
    world.plant(doc_id, {**body, "currency": "XXX"})
    page, report = tmp_path / "page.html", tmp_path / "report.json"
    found = run("dark-launch", "--samples", 150, "--per-s", 300, "--html", page, "--json")
    assert found.exit_code == 1
    assert orjson.loads(found.stdout)["found"] == {
        "field currency": orjson.loads(found.stdout)["found"]["field currency"]
    }
    assert "field currency" in page.read_text(encoding="utf-8")
    report.write_text(found.stdout, encoding="utf-8")
    assert run("dark-launch", *quick, "--ignore", "currency").exit_code == 0
    assert "no such field" in run("dark-launch", "--ignore", "colour").stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "Give another port" in run("dark-launch", "--metrics-port", taken.getsockname()[1]).stderr
    added = run("dark-launch", "--from", report, "--from", report)
    assert (added.exit_code, "300 samples" in added.stdout) == (1, True)
    assert run("dark-launch", "--from", page).exit_code == 2
