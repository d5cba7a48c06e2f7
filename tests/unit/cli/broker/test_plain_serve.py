"""A plain `penstock serve` is read without the library that reads everything else, and alike."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.broker.plain_serve import CONFIG_FLAG, plain_flags, read_plainly
from penstock.cli.broker.serve import serve
from penstock.cli.flags import Given
from penstock.cli.main import run
from penstock.cli.program import app
from penstock.server.config import FIELDS


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read_by_program(words: list[str]) -> dict[str, Any]:
    """Flags and values as the library reads them."""
    command, bound, _ = app.parse_args(["serve", *words], print_error=False, exit_on_error=False)
    assert command is serve, "it is the command that is meant"
    of_field = {entry.name.replace(".", "__"): entry.flag for entry in FIELDS}
    return {(of_field | {"config": CONFIG_FLAG})[name]: typed for name, typed in _typed(bound)}


def _typed(bound: Any) -> list[tuple[str, Any]]:
    return list(bound.kwargs.items())


FLAGS = [*(entry.flag for entry in FIELDS), CONFIG_FLAG]
VALUES = st.sampled_from(
    ["d", "127.0.0.1:9092", "64MiB", "a=b", "=", "none", "null", "true", "1,2", "a b", "ä", "[x]"]
) | st.text(alphabet="ab1.:=@,/[]{}'\"\\ ", min_size=1, max_size=8)
WORDS = st.one_of(
    st.sampled_from(FLAGS),
    VALUES,
    st.builds("{}={}".format, st.sampled_from(FLAGS), VALUES),
    st.sampled_from(["--no-insecure", "--insecure=true", "--", "-h", "--help", "--data=", ""]),
)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(FLAGS), VALUES).map(list),
            WORDS.map(lambda word: [word]),
        ),
        max_size=4,
    )
)
def test_what_is_read_plainly_means_the_same_to_the_library(parts: list[list[str]]) -> None:
    words = [word for part in parts for word in part]
    plain = plain_flags(words)
    if plain is not None:
        assert plain == read_by_program(words), words


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], {}),
        (["--data", "d", "--http=127.0.0.1:1"], {"--data": "d", "--http": "127.0.0.1:1"}),
        (["--insecure", "--data", "d"], {"--insecure": True, "--data": "d"}),
        (["--storage.segment-size=1MiB"], {"--storage.segment-size": "1MiB"}),
        (["--config", "p.toml"], {"--config": "p.toml"}),
    ],
)
def test_plain(words: list[str], found: dict[str, object]) -> None:
    assert plain_flags(words) == found == read_by_program(words)


@pytest.mark.parametrize(
    "words",
    [
        ["d"],
        ["--help"],
        ["--data"],
        ["--data", "-x"],
        ["--data", "--insecure"],
        ["--data="],
        ["--data", ""],
        ["--data", "a", "--data", "b"],
        ["--dat", "a"],
        ["--node_id", "1"],
        ["--insecure=true"],
        ["--insecure", "true"],
        ["--no-insecure"],
        ["--"],
    ],
)
def test_what_is_not_plain_is_left_to_the_library(words: list[str]) -> None:
    assert plain_flags(words) is None


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dev", "--data", "d"],
        ["serve"],
        ["serve", "--kafka", "127.0.0.1:1"],
        ["serve", "--data", "d", "--kafka", "nonsense"],
    ],
)
def test_other_commands_and_mistakes_are_left_to_the_library(arguments: list[str]) -> None:
    assert read_plainly(arguments) is None


def test_a_plain_one_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    """As far as can be seen without a broker: what it says of settings that do not go together."""
    arguments = ["serve", "--data", "d", "--kafka", "0.0.0.0:1"]
    assert read_plainly(arguments) is not None
    assert run(arguments) == 1
    assert capsys.readouterr().err.startswith("penstock: kafka = 0.0.0.0:1 can be reached")
    assert not Path("d").exists()


def test_variables_and_files_count_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("p.toml").write_text('data = "elsewhere"\n')
    serving: Callable[[], int] | None = read_plainly(["serve", "--config", "p.toml"])
    assert serving is not None
    monkeypatch.setenv("PENSTOCK_DATA", "there")
    assert read_plainly(["serve"]) is not None
    assert Given(flags={}, file=None).load().config.broker.data == "there"
