"""The settings of a broker that is started for a test, independent of the machine's configuration.

A test's broker reads no file and no variable: it has Penstock's defaults, those below, and what the
test says. What is below makes it small and quick and changes nothing that a client could tell from
a broker in production, but for the waiting.
"""

from collections.abc import Mapping

from penstock.core.errors import LocalError
from penstock.server.checks import check_config
from penstock.server.config import BY_NAME, FIELDS, make_config
from penstock.server.sources import DEFAULT, LoadedConfig, Origin, Source, parse_value

TEST_SETTINGS: Mapping[str, object] = {
    "kafka": "127.0.0.1:0",
    "http": "127.0.0.1:0",
    "peer": "127.0.0.1:0",
    "shards": 2,
    "storage.segment_size": "4MiB",
    "storage.ballast_size": "4MiB",
    "groups.initial_delay": "0s",
    "sqs.cooldown": "0s",
    "limits.stop_grace": "1s",
}


def load_settings(settings: Mapping[str, object]) -> LoadedConfig:
    """Return the test's settings, by name as in `penstock config reference`, on top of the defaults
    for tests."""
    written = {**TEST_SETTINGS, **settings}
    source = Source(origin=Origin.DEFAULT, place="of a test")
    values: dict[str, object] = {}
    for name, value in written.items():
        entry = BY_NAME.get(name)
        if entry is None:
            raise LocalError(f"there is no setting {name}; see: penstock config reference")
        values[name] = parse_value(entry, value, source)
    loaded = LoadedConfig(
        config=make_config(values),
        sources={entry.name: source if entry.name in values else DEFAULT for entry in FIELDS},
        file=None,
    )
    check_config(loaded.config)
    return loaded
