"""The one list of fields: what it must be so that everything can be derived from it."""

from penstock.server.config import BY_NAME, BY_VARIABLE, FIELDS, Config, make_config, sections
from penstock.server.notation import Address


def test_names_flags_and_variables_are_unambiguous() -> None:
    assert len(BY_NAME) == len(BY_VARIABLE) == len({entry.flag for entry in FIELDS}) == len(FIELDS)
    tables = {section for section, _ in sections()}
    assert not tables & BY_NAME.keys(), "a TOML key cannot be a value and a table"


def test_the_flags_people_know() -> None:
    flags = {entry.flag for entry in FIELDS}
    fixed = "data kafka http peer node-id cluster shards insecure advertise-kafka ready-file"
    assert {f"--{name}" for name in fixed.split()} <= flags
    assert "--storage.segment-size" in flags
    assert BY_VARIABLE["PENSTOCK_STORAGE_SEGMENT_SIZE"].name == "storage.segment_size"
    assert BY_VARIABLE["PENSTOCK_NODE_ID"].flag == "--node-id"


def test_every_default_is_a_value_one_could_write() -> None:
    for entry in FIELDS:
        written = entry.written(entry.default)
        if written:
            assert entry.notation.parse(written) == entry.default, entry.name
        assert entry.meaning.endswith("."), entry.name


def test_values_find_their_place() -> None:
    config = make_config({"kafka": Address("127.0.0.1", 1), "storage.segment_size": 1 << 20})
    assert config.broker.kafka.port == 1
    assert config.storage.segment_bytes == 1 << 20
    assert config.value(BY_NAME["storage.segment_size"]) == 1 << 20
    assert make_config({}) == Config()
