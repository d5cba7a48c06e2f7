"""Where values come from, which of them counts, and what is said about those nobody knows."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.core.errors import LocalError
from penstock.server.config import BY_NAME, FIELDS
from penstock.server.sources import LoadedConfig, load_config

FILE = "shards = 5\n[topics]\npartitions_default = 5\n"
VARIABLES = {"PENSTOCK_SHARDS": "6", "PENSTOCK_TOPICS_PARTITIONS_DEFAULT": "6"}
FLAGS = {"shards": "7", "topics.partitions_default": "7"}


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(
    *,
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    file: str | None = None,
) -> LoadedConfig:
    if file is not None:
        Path("given.toml").write_text(file, "utf-8")
    return load_config(
        flags=flags or {},
        environment=environment or {},
        file=None if file is None else "given.toml",
    )


@pytest.mark.parametrize(
    ("file", "variables", "flags", "value", "origin"),
    [
        (None, {}, {}, 4, "default"),
        (FILE, {}, {}, 5, "file given.toml"),
        (None, VARIABLES, {}, 6, "environment {variable}"),
        (FILE, VARIABLES, {}, 6, "environment {variable}"),
        (None, {}, FLAGS, 7, "flag {flag}"),
        (FILE, {}, FLAGS, 7, "flag {flag}"),
        (None, VARIABLES, FLAGS, 7, "flag {flag}"),
        (FILE, VARIABLES, FLAGS, 7, "flag {flag}"),
    ],
)
def test_the_stronger_source_counts(
    file: str | None, variables: dict[str, str], flags: dict[str, str], value: int, origin: str
) -> None:
    loaded = load(flags=flags, environment=variables, file=file)
    for name in FLAGS:
        entry = BY_NAME[name]
        assert loaded.config.value(entry) == value
        wanted = origin.format(variable=entry.variable, flag=entry.flag)
        assert str(loaded.source(entry)) == wanted
    others = [entry for entry in FIELDS if entry.name not in FLAGS]
    assert all(str(loaded.source(entry)) == "default" for entry in others)


def test_every_field_can_be_set_everywhere(tmp_path: Path) -> None:
    for entry in FIELDS:
        written = entry.written(entry.default) or {
            "PATH": "somewhere",
            "NETWORK,...": "203.0.113.0/24",
            "HOST:PORT": "127.0.0.1:1",
            "1@HOST:PORT,...": "1@127.0.0.1:2",
            "URL": "https://127.0.0.1/hook",
        }.get(entry.notation.placeholder, "some")
        value = entry.notation.parse(written)
        table, _, key = entry.name.rpartition(".")
        document = (f"[{table}]\n" if table else "") + f'{key} = "{written}"\n'
        for loaded in (
            load(flags={entry.name: written}),
            load(environment={entry.variable: written}),
            load(file=document),
        ):
            assert loaded.config.value(entry) == value, entry.name
            assert not loaded.is_default(entry.name)


def test_toml_values_of_their_own_kind() -> None:
    loaded = load(
        file='insecure = true\nnode_id = 3\ncluster = ["3@a:1", "4@b:2"]\n'
        '[storage]\nsegment_size = 1048576\n[log]\nlevel = "debug"\n'
    )
    assert loaded.config.broker.insecure is True
    assert [member.node for member in loaded.config.broker.cluster] == [3, 4]
    assert loaded.config.storage.segment_bytes == 1 << 20
    assert loaded.config.log.level == "debug"


def test_which_file_is_read() -> None:
    assert load().file is None
    Path("penstock.toml").write_text("shards = 5\n", "utf-8")
    Path("other.toml").write_text("shards = 6\n", "utf-8")
    assert load().file == "penstock.toml"
    assert load().config.broker.shards == 5
    environment = {"PENSTOCK_CONFIG": "other.toml"}
    assert load(environment=environment).config.broker.shards == 6
    named = load_config(flags={}, environment=environment, file="penstock.toml")
    assert named.config.broker.shards == 5


def test_a_node_listens_where_its_cluster_says() -> None:
    flags = {"cluster": "1@127.0.0.1:5,2@127.0.0.1:6", "node_id": "2"}
    loaded = load(flags=flags)
    assert str(loaded.config.broker.peer) == "127.0.0.1:6"
    assert str(loaded.source(BY_NAME["peer"])) == "default from cluster"
    told = load(flags={**flags, "peer": "127.0.0.1:7"})
    assert str(told.config.broker.peer) == "127.0.0.1:7"


@pytest.mark.parametrize(
    ("file", "variables", "sentence"),
    [
        ("shard = 3\n", {}, "given.toml has an unknown key shard; did you mean shards?"),
        (
            "node-id = 3\n",
            {},
            "given.toml has an unknown key node-id; did you mean node_id?",
        ),
        (
            "auto_create = true\n",
            {},
            "given.toml has an unknown key auto_create; did you mean topics.auto_create?",
        ),
        (
            "[storage]\nsegment_bytes = 3\n",
            {},
            (
                "given.toml has an unknown key storage.segment_bytes;"
                " did you mean storage.segment_size?"
            ),
        ),
        (
            "[topic]\na = 3\n",
            {},
            "given.toml has an unknown section [topic]; did you mean topics?",
        ),
        ("[broker]\ndata = 'x'\n", {}, "given.toml has an unknown section [broker];"),
        (
            None,
            {"PENSTOCK_KAFKA_PORT": "9092"},
            (
                "the environment has an unknown variable PENSTOCK_KAFKA_PORT;"
                " did you mean PENSTOCK_KAFKA?"
            ),
        ),
        (
            None,
            {"PENSTOCK_XYZZY_Q": "1"},
            (
                "the environment has an unknown variable PENSTOCK_XYZZY_Q;"
                " see: penstock config reference"
            ),
        ),
    ],
)
def test_what_nobody_knows_is_refused_with_a_suggestion(
    file: str | None, variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(LocalError) as refused:
        load(environment=variables, file=file)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("file", "variables", "flags", "sentence"),
    [
        (
            None,
            {"PENSTOCK_KAFKA": "9092"},
            {},
            'kafka = "9092" (environment PENSTOCK_KAFKA) is not allowed: it must be HOST:PORT,',
        ),
        (
            None,
            {},
            {"shards": "0"},
            'shards = "0" (flag --shards) is not allowed: it must be a whole number from 1 to',
        ),
        (
            "[limits]\nstop_grace = 30\n",
            {},
            {},
            (
                "limits.stop_grace = 30 (file given.toml) is not allowed: it must be a duration"
                " with its unit"
            ),
        ),
    ],
)
def test_a_bad_value_is_one_sentence_with_everything_in_it(
    file: str | None, variables: dict[str, str], flags: dict[str, str], sentence: str
) -> None:
    with pytest.raises(LocalError) as refused:
        load(flags=flags, environment=variables, file=file)
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_a_service_of_kubernetes_is_no_misspelling() -> None:
    load(
        environment={
            "PENSTOCK_SERVICE_HOST": "192.0.2.1",
            "PENSTOCK_SERVICE_PORT": "9092",
            "PENSTOCK_SERVICE_PORT_KAFKA": "9092",
            "PENSTOCK_PORT": "tcp://192.0.2.1:9092",
            "PENSTOCK_KAFKA_PORT": "tcp://192.0.2.1:9092",
            "PENSTOCK_PORT_9092_TCP": "tcp://192.0.2.1:9092",
            "PENSTOCK_PORT_9092_TCP_ADDR": "192.0.2.1",
        }
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"shards = \n", "is no valid TOML"),
        (b"\xff\xfe", "is no valid TOML"),
        (b"#" * (1 << 20) + b"\n", "is it one?"),
    ],
)
def test_a_file_that_is_none(content: bytes, sentence: str) -> None:
    Path("penstock.toml").write_bytes(content)
    with pytest.raises(LocalError, match="penstock.toml") as refused:
        load()
    assert sentence in str(refused.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(LocalError, match="nowhere.toml cannot be read: No such file"):
        load_config(flags={}, environment={}, file="nowhere.toml")


def test_a_command_may_have_defaults_of_its_own() -> None:
    loaded = load(flags={"shards": "2"}).changed({"data": "here"}, "of penstock dev")
    assert loaded.config.broker.data == "here"
    assert loaded.config.broker.shards == 2
    assert str(loaded.source(BY_NAME["data"])) == "default of penstock dev"
    assert loaded.is_default("data")


# Secrets.

SECRET = "https://user:pass@hooks.example/T00/hush"


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_a_secret_may_be_in_a_file_of_its_own(way: str) -> None:
    Path("webhook").write_text(f"{SECRET}\n", "utf-8")
    loaded = load(
        flags={"alerts.webhook": "@webhook"} if way == "flag" else {},
        environment={"PENSTOCK_ALERTS_WEBHOOK": "@webhook"} if way == "variable" else {},
        file='[alerts]\nwebhook = "@webhook"\n' if way == "file" else None,
    )
    assert loaded.config.alerts.webhook == SECRET


def test_the_file_of_a_secret_must_be_there() -> None:
    with pytest.raises(LocalError) as refused:
        load(flags={"alerts.webhook": "@missing"})
    assert str(refused.value) == (
        "alerts.webhook (flag --alerts.webhook) names the file missing, which cannot be read: No"
        " such file or directory"
    )


@pytest.mark.parametrize("written", ["htps://hooks.example/hush", "@webhook"])
def test_a_secret_is_in_no_error(written: str) -> None:
    Path("webhook").write_text("hooks.example/hush", "utf-8")
    with pytest.raises(LocalError) as refused:
        load(flags={"alerts.webhook": written})
    assert "hush" not in str(refused.value)
    assert str(refused.value).startswith(
        "alerts.webhook (flag --alerts.webhook) is not allowed: it must be an address such as"
    )


def test_only_a_secret_may_be_in_a_file() -> None:
    Path("rack").write_text("east", "utf-8")
    assert load(flags={"rack": "@rack"}).config.broker.rack == "@rack"
