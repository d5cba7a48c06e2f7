"""The fuzzers' inputs: equal for equal seeds, and mostly sound enough to pass a decoder."""

import random

import msgspec
import pytest

from penstock.core.errors import InvalidFrame, MalformedRequest
from penstock.kafka.codec import codec as kafka_codec
from penstock.kafka.codec import skip_tags
from penstock.kafka.schema import schema_of
from penstock.wire import codec as native_codec
from tests.abuse.fuzzers import FUZZERS, Port, fuzz_input, repeat_command
from tests.abuse.grammar_kafka import apis, kafka_request
from tests.abuse.grammar_structs import Values, native_head, native_requests
from tests.abuse.kafka_wire import CLIENT
from tests.abuse.mutations import corpus, mutate
from tests.abuse.registry import CASES, GROUPS
from tests.abuse.run import chosen_cases, parse

PORT = Port(("127.0.0.1", 1), (bytes(16),), "cluster")
SAMPLES = 300


@pytest.mark.parametrize("name", FUZZERS)
def test_an_input_is_known_by_its_seed_and_number(name: str) -> None:
    first = [fuzz_input(name, 7, number, PORT) for number in range(SAMPLES)]
    assert first == [fuzz_input(name, 7, number, PORT) for number in range(SAMPLES)]
    assert first != [fuzz_input(name, 8, number, PORT) for number in range(SAMPLES)]
    assert len(set(first)) > SAMPLES // 2, "the inputs are all alike"


def test_a_failure_is_repeated_by_one_command() -> None:
    command = repeat_command("fuzz-kafka-grammar", 7, 4096, 2048)
    arguments = command.split('"')[1].split()
    options = parse(arguments)
    assert (options.only, options.seed, options.first, options.inputs) == (
        ["fuzz-kafka-grammar"],
        7,
        4096,
        2048,
    )


def test_the_grammar_of_kafka_gets_past_the_decoder() -> None:
    """Of every API and version something; most requests can be read."""
    rng = random.Random(1)
    seen: set[tuple[int, int]] = set()
    read = total = 0
    for _ in range(4_000):
        data = kafka_request(rng)
        key, version = int.from_bytes(data[4:6]), int.from_bytes(data[6:8])
        seen.add((key, version))
        position = 14 + len(CLIENT)
        if schema_of(key, "request").is_flexible_in(version):
            position = skip_tags(data, position)
        total += 1
        try:
            kafka_codec(key, version).decode(bytes(data), position)
            read += 1
        except MalformedRequest:
            continue
    assert seen == set(apis())
    assert read > total // 2, f"{read} of {total} can be read"


def test_the_grammar_of_the_native_protocol_gets_past_the_decoder() -> None:
    rng = random.Random(1)
    seen: set[str] = set()
    for _ in range(4_000):
        try:
            seen.add(type(native_codec.decode_request(native_head(rng))).__name__)
        except InvalidFrame:
            continue
    assert seen == {cls.__name__ for cls in native_requests()}


def test_values_have_the_types_of_their_fields_most_of_the_time() -> None:
    values = Values(random.Random(3))

    class Row(msgspec.Struct, array_like=True):
        number: int
        text: str
        data: bytes

    sound = 0
    for _ in range(SAMPLES):
        try:
            msgspec.convert(values.struct(Row), Row)
            sound += 1
        except (msgspec.ValidationError, OverflowError):
            continue
    assert SAMPLES // 2 < sound < SAMPLES


@pytest.mark.parametrize("name", ["kafka", "native", "http"])
def test_mutants_differ_from_what_was_captured(name: str) -> None:
    seeds = corpus(name)
    assert len(seeds) >= 10
    rng = random.Random(1)
    changed = sum(mutate(rng, seed, seeds) != seed for seed in seeds * 10)
    assert changed > len(seeds) * 8


def test_every_case_says_what_it_tries() -> None:
    assert len(CASES) >= 150
    assert {case.group for case in CASES.values()} == set(GROUPS)
    for case in CASES.values():
        assert len(case.what.split()) >= 2, case.name


def test_cases_are_chosen_by_group_name_and_finding() -> None:
    assert {case.group for case in chosen_cases(["kafka"], "")} == {"kafka"}
    (only,) = chosen_cases(["k19b"], "")
    assert only.finding == "F5a"
    assert {case.finding for case in chosen_cases([], "F5")} >= {"F5", "F5a", "F5f"}
    assert all(case.finding.startswith("F1") for case in chosen_cases([], "F1"))
    assert not any(case.finding == "F13" for case in chosen_cases([], "F1"))
