"""The fuzzers' inputs: equal for equal seeds, and mostly sound enough to pass a decoder."""

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from penstock.core.errors import InvalidFrame, MalformedRequest
from penstock.engine.peers import frames
from penstock.engine.peers.frames import Frame, FrameKind, decode_payload
from penstock.kafka.codec import codec as kafka_codec
from penstock.kafka.codec import skip_tags
from penstock.kafka.schema import schema_of
from penstock.wire import codec as native_codec
from tests.abuse.cases_trio import SUFFIX, is_of_clients
from tests.abuse.codec_targets import captured_frames
from tests.abuse.fuzzers import FUZZERS, Port, fuzz_input, repeat_command
from tests.abuse.grammar_kafka import apis, kafka_request
from tests.abuse.grammar_structs import CALLS, Values, native_head, native_requests, peer_frame
from tests.abuse.kafka_wire import CLIENT
from tests.abuse.mutations import corpus, mutate
from tests.abuse.registry import CASES, GROUPS
from tests.abuse.run import chosen_cases, parse

PORT = Port(("127.0.0.1", 1), (bytes(16),))
SAMPLES = 300
_DECODERS: dict[FrameKind, msgspec.msgpack.Decoder[Any]] = {
    FrameKind.HELLO: frames.HELLO_DECODER,
    FrameKind.REFUSED: frames.REFUSED_DECODER,
    FrameKind.MESSAGES: frames.MESSAGES_DECODER,
    FrameKind.REQUEST: frames.REQUEST_DECODER,
    FrameKind.ANSWER: frames.ANSWER_DECODER,
    FrameKind.FAILURE: frames.FAILURE_DECODER,
    FrameKind.NOTICE: frames.NOTICE_DECODER,
    FrameKind.WITHDRAWAL: frames.WITHDRAWAL_DECODER,
}


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


def test_the_grammar_of_peers_gets_past_the_decoders() -> None:
    """Of every kind of frame something, and of every call; most can be read."""
    rng = random.Random(1)
    kinds: set[FrameKind] = set()
    calls: set[str] = set()
    read = total = 0
    for _ in range(4_000):
        kind, payload = peer_frame(rng)
        kinds.add(kind)
        total += 1
        try:
            decoded = decode_payload(_DECODERS[kind], Frame(kind, memoryview(payload)))
        except InvalidFrame:
            continue
        read += 1
        if isinstance(decoded, frames.Request):
            calls.add(decoded.method)
    assert kinds == set(_DECODERS)
    assert calls >= {call.name for call in CALLS}
    assert read > total // 2, f"{read} of {total} can be read"


def test_the_frames_of_nodes_are_of_many_kinds() -> None:
    """What the mutants begin with: messages, calls, answers and notices, as nodes send them."""
    kinds = Counter(kind for kind, _ in captured_frames())
    assert kinds[FrameKind.MESSAGES] >= 10
    assert kinds[FrameKind.REQUEST] >= 10
    assert {FrameKind.ANSWER, FrameKind.NOTICE, FrameKind.CHALLENGE, FrameKind.PROOF} <= set(kinds)


@pytest.mark.parametrize("name", ["kafka", "native", "http", "peer", "handshake"])
def test_mutants_differ_from_what_was_captured(name: str) -> None:
    seeds = corpus(name)
    assert len(seeds) >= (10 if name != "handshake" else 5)
    rng = random.Random(1)
    changed = sum(mutate(rng, seed, seeds) != seed for seed in seeds * 10)
    assert changed > len(seeds) * 8


def test_every_case_says_what_it_tries() -> None:
    assert len(CASES) >= 150
    assert {case.group for case in CASES.values()} == set(GROUPS)
    for case in CASES.values():
        assert len(case.what.split()) >= 2, case.name


def test_every_case_of_the_peer_port_has_peers() -> None:
    """A cluster of one has no listener there, and nothing that is sent arrives."""
    assert all(case.nodes > 1 for case in CASES.values() if case.group == "peer")


def test_what_any_client_can_send_comes_to_three_nodes_as_well() -> None:
    for case in CASES.values():
        if is_of_clients(case):
            twin = CASES[case.name + SUFFIX]
            assert twin.nodes == 3
            assert not twin.elects
    again = {CASES[name.removesuffix(SUFFIX)].finding for name in CASES if name.endswith(SUFFIX)}
    assert {"F1", "F2", "F3", "F5", "F5a", "F5b", "F5c", "F5d", "F5e", "F5f", "F6"} <= again


def test_cases_are_chosen_by_group_name_and_finding() -> None:
    assert {case.group for case in chosen_cases(["kafka"], "")} == {"kafka"}
    both = chosen_cases(["k19b"], "")
    assert {(case.finding, case.nodes) for case in both} == {("F5a", 1), ("F5a", 3)}
    assert {case.finding for case in chosen_cases([], "F5")} >= {"F5", "F5a", "F5f"}
    assert all(case.finding.startswith("F1") for case in chosen_cases([], "F1"))
    assert not any(case.finding == "F13" for case in chosen_cases([], "F1"))
