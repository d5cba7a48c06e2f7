"""Every client library with every codec, through a growing and shrinking group and a kill -9.

`make test` runs each library with one codec and few messages; `make interop` all of them with
100,000 messages each.
"""

import gc
import os
from pathlib import Path

import pytest

from tests.interop_full import aio, librdkafka, pure_python
from tests.interop_full.kinds import CODECS, Kind
from tests.interop_full.scenario import run_scenario

pytestmark = [
    # A broker that is killed makes some clients leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

KINDS = (
    Kind("confluent-kafka", librdkafka.send_all, librdkafka.LibrdkafkaMember),
    Kind("aiokafka", aio.send_all, aio.AioMember),
    Kind("kafka-python", pure_python.send_all, pure_python.PurePythonMember),
)
FEW = 3_000
MANY = int(os.environ.get("INTEROP_MESSAGES", "100000"))


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(
    ("kind", "codec"),
    list(zip(KINDS, ("zstd", "lz4", "snappy"), strict=True)),
    ids=[kind.name for kind in KINDS],
)
def test_few(tmp_path: Path, kind: Kind, codec: str) -> None:
    print(run_scenario(tmp_path, kind, codec, FEW))
    gc.collect()


@pytest.mark.interop
@pytest.mark.timeout(900)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_many(tmp_path: Path, kind: Kind, codec: str) -> None:
    print(run_scenario(tmp_path, kind, codec, MANY))
    gc.collect()
