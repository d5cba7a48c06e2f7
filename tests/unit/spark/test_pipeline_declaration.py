"""Pipelines as they are written: TOML, YAML and Python mean the same, and what is wrong is told."""

import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.core.errors import InvalidRequest
from penstock.spark.pipelines.declaration import Column, Declaration, Source, Table, Target
from penstock.spark.pipelines.diagram import draw
from penstock.spark.pipelines.example import example
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.pipelines.pipeline_file import parse, parse_text, read_pipeline

TOML = """
name = "orders"
dead_letters = "refused"
trigger = "1s"

[[stages]]
name = "extract"
from = { queue = "incoming", group = "etl" }
max_per_trigger = 500

[stages.schema]
id = "string NOT NULL"
amount = { type = "double", min = 0, max = 10.5 }
kind = { type = "string", allowed = ["a", "b"], pattern = "^[ab]$" }
since = { type = "date", min = 2020-01-31 }

[[stages]]
name = "clean"
where = "amount > 1"
enrich = { path = "kinds.csv", keys = ["kind"], columns = ["label"], missing = "dead" }
select = ["id", "label"]
expect = { "no label" = "label IS NOT NULL" }
key = "id"

[[stages]]
name = "load"
to = { lake = "s3a://bucket/lake", partition_by = ["label"] }
"""

YAML = """
name: orders
dead_letters: refused
trigger: 1s
stages:
  - name: extract
    from: {queue: incoming, group: etl}
    max_per_trigger: 500
    schema:
      id: string NOT NULL
      amount: {type: double, min: 0, max: 10.5}
      kind: {type: string, allowed: [a, b], pattern: "^[ab]$"}
      since: {type: date, min: 2020-01-31}
  - name: clean
    where: amount > 1
    enrich: {path: kinds.csv, keys: [kind], columns: [label], missing: dead}
    select: [id, label]
    expect: {no label: label IS NOT NULL}
    key: id
  - name: load
    to: {lake: "s3a://bucket/lake", partition_by: [label]}
"""


def stage(**said: Any) -> dict[str, Any]:
    return {"name": "only", "from": "raw", **said}


def pipeline(*stages: dict[str, Any], **said: Any) -> Declaration:
    return parse({"name": "orders", "stages": list(stages), **said})


def complaint(*stages: dict[str, Any], **said: Any) -> str:
    with pytest.raises(InvalidRequest) as raised:
        pipeline(*stages, **said)
    return str(raised.value)


def test_toml_and_yaml_mean_the_same(tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text(TOML)
    (tmp_path / "orders.yaml").write_text(YAML)
    declaration = read_pipeline(tmp_path / "orders.toml")
    assert declaration == read_pipeline(tmp_path / "orders.yaml")
    extract, clean, load = declaration.stages
    assert extract.source == Source(queue="incoming", group="etl")
    assert extract.to == Target(topic="orders.extract")
    assert extract.schema["id"] == Column(type="string", required=True)
    assert extract.schema["since"].min == "2020-01-31"
    assert (extract.max_per_trigger, clean.max_per_trigger) == (500, 100_000)
    assert clean.source == Source(stage="extract")
    assert declaration.input_of(clean) == "orders.extract"
    assert (declaration.group_of(extract), declaration.group_of(clean)) == ("etl", "orders-clean")
    (table,) = clean.enrich
    assert table == Table(
        path=str(tmp_path / "kinds.csv"), keys=("kind",), columns=("label",), missing="dead"
    )
    assert load.to == Target(lake="s3a://bucket/lake", partition_by=("label",))
    assert {one.dead_letters for one in declaration.stages} == {"refused"}


def test_python_means_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "priced_orders.py").write_text(
        "from penstock.spark.pipelines.pipeline import Pipeline\n"
        "orders = Pipeline('orders', trigger='2s')\n"
        "@orders.stage('extract', source={'topic': 'raw'}, schema={'id': 'string not null'})\n"
        "def extract(frame):\n    return frame\n"
        "@orders.each('price', gives={'id': 'string', 'total': 'double'})\n"
        "def price(row):\n    return row\n"
        "orders.stage('load', to='done', select=('id',))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "same.toml").write_text(
        'name = "orders"\ntrigger = "2s"\n[[stages]]\nname = "extract"\nfrom = "raw"\n'
        'python = "priced_orders:extract"\nschema = { id = "string not null" }\n'
        '[[stages]]\nname = "price"\neach = "priced_orders:price"\n'
        'gives = { id = "string", total = "double" }\n'
        '[[stages]]\nname = "load"\nto = "done"\nselect = ["id"]\n'
    )
    try:
        written = read_pipeline(tmp_path / "priced_orders.py")
    finally:
        sys.modules.pop("priced_orders", None)
    assert written == read_pipeline(tmp_path / "same.toml")


def test_a_function_that_workers_could_not_find() -> None:
    orders = Pipeline("orders")

    def inner(frame: object) -> object:
        return frame

    with pytest.raises(InvalidRequest, match="a function of a module"):
        orders.stage("extract", source="raw")(inner)


def test_a_file_of_python_with_two_pipelines(tmp_path: Path) -> None:
    path = tmp_path / "two_pipelines.py"
    path.write_text(
        "from penstock.spark.pipelines.pipeline import Pipeline\n"
        "a = Pipeline('a')\nb = Pipeline('b')\n"
    )
    with pytest.raises(InvalidRequest, match="more than one"):
        read_pipeline(path)


def test_the_example_is_a_pipeline() -> None:
    declaration = parse_text(example("shop", "shop.toml"), ".toml", Path("."))
    assert [one.name for one in declaration.stages] == ["extract", "transform", "load"]
    picture = draw(declaration)
    assert "topic shop.raw    group shop-extract" in picture
    assert "amount: double, required, at least 0, at most 1000000" in picture
    assert "✗ dead letters shop.dead" in picture
    assert picture.endswith("lake lake/shop")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"shema": {}}, "stages[0].shema is no key of a pipeline; is schema meant?"),
        ({"schema": {"id": {"typ": "int"}}}, "stages[0].schema.id.typ is no key of a pipeline"),
        ({"from": {"topik": "x"}}, "stages[0].from.topik is no key of a pipeline; is topic meant?"),
        ({"enrich": [{"key": ["a"]}]}, "stages[0].enrich[0].key is no key of a pipeline; is keys"),
        ({"trigger": 5}, "stages[0].trigger: expected `str | null`, got `int`"),
        ({"trigger": "5"}, 'stages[0].trigger: "5" must be a duration with its unit'),
        ({"trigger": "0ms"}, "stages[0].trigger: it must be at least 1ms"),
        ({"max_per_trigger": 0}, "stages[0].max_per_trigger: expected `int` >= 1"),
        ({"name": "a b"}, "stages[0].name: a name has letters"),
        ({"from": {"topic": "a", "queue": "b"}}, "stages[0].from: say one of topic, queue and"),
        ({"from": {"stage": "later"}}, "stages[0].from.stage: there is no earlier stage later"),
        ({"from": {"topic": "a", "start": "now"}}, "stages[0].from.start: now must be earliest"),
        ({"from": "no such name"}, "stages[0].from: 'no such name' is no name of a topic"),
        ({"to": {"topic": "a", "partition_by": ["b"]}}, "stages[0].to.partition_by: only a lake"),
        ({"to": "raw"}, "stages[0].from: raw is written by stage only"),
        ({"dead_letters": "raw"}, "stages[0].from: raw is written by stage only"),
        ({"schema": {"_id": "int"}}, "stages[0].schema._id: a column begins with a letter"),
        ({"schema": {"a": "int", "A": "int"}}, "stages[0].schema.A: SQL cannot tell it from a"),
        ({"schema": {"a": {"type": "int", "min": 2, "max": 1}}}, "min = 2 is more than max = 1"),
        ({"schema": {"a": {"type": "int", "min": 2, "max": "x"}}}, "both numbers or both texts"),
        ({"schema": {"a": {"type": "string", "pattern": "("}}}, "is no regular expression"),
        ({"enrich": {"keys": ["a"]}}, "stages[0].enrich[0]: say either path or sql"),
        ({"enrich": {"keys": ["a"], "path": "x.dat"}}, "stages[0].enrich[0].format: say one of"),
        ({"python": "orders"}, "stages[0].python: 'orders' must be module:function"),
        ({"gives": {"a": "int"}}, "stages[0].gives: it says what `each` returns"),
        ({"watermark": "10 minutes"}, "stages[0].watermark:"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(said: dict[str, Any], told: str) -> None:
    assert told in complaint(stage(**said))


def test_what_is_wrong_with_the_whole() -> None:
    assert complaint() == "stages: a pipeline has at least one"
    assert "brokr is no key of a pipeline; is broker meant?" in complaint(stage(), brokr="x")
    assert "two stages called only" in complaint(stage(), {**stage(), "to": "b"})
    assert "where its rows come from" in complaint({"name": "only"})
    lake = {**stage(), "to": {"lake": "x"}}
    assert "only writes a lake, and nothing can follow it" in complaint(lake, {"name": "next"})
    with pytest.raises(InvalidRequest, match="is a table with the keys name and stages"):
        parse(["orders"])


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.toml", "name = ", "a.toml: no TOML: "),
        ("a.yaml", "name: [", "a.yaml: no YAML in line 1"),
        ("a.toml", "nme = 'x'", "a.toml: nme is no key of a pipeline; is name meant?"),
        ("a.json", "{}", "must end in .toml, .yaml, .yml, .py"),
        ("a.py", "1 / 0", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, text: str, told: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    sys.modules.pop("a", None)
    with pytest.raises(InvalidRequest) as raised:
        read_pipeline(path)
    assert told in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="begin one with `penstock pipeline new NAME`"):
        read_pipeline(tmp_path / "orders.toml")
