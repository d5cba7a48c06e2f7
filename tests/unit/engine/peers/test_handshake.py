"""Mutual authentication: what proves a node, and everything that does not."""

import pytest

from penstock.core.errors import InvalidFrame, InvalidRequest
from penstock.core.types import NodeId
from penstock.engine.peers.cluster_key import (
    ClusterKeys,
    draw_key,
    fingerprint,
    format_keys,
    parse_keys,
)
from penstock.engine.peers.handshake import (
    Challenge,
    Initiator,
    ProvenHello,
    Responder,
    Response,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
A, B, C = (bytes([number]) * 32 for number in (1, 2, 3))


def meet(
    asking: tuple[bytes, ...], asked: tuple[bytes, ...], *, target: NodeId = TWO
) -> tuple[bytes, bytes] | None:
    """The keys by which the initiator and the responder hold each other for proven."""
    initiator = Initiator(ClusterKeys(asking), target)
    responder = Responder(ClusterKeys(asked), TWO, initiator.challenge())
    if not initiator.verify(responder.response()):
        return None
    key = responder.verify(initiator.proof(b"hello of one"))
    return initiator.confirmed(responder.confirm(b"hello of two")), key


def test_two_nodes_that_share_a_key_prove_themselves_to_each_other() -> None:
    assert meet((A,), (A,)) == (A, A)
    assert meet((B, A), (A,)) == (A, A)
    assert meet((A,), (B, A)) == (A, A)
    assert meet((B, A), (A, B)) == (B, B)


def test_without_a_shared_key_nothing_is_said() -> None:
    assert meet((A,), (B,)) is None
    assert meet((A,), ()) is None
    assert meet((A, B), (C,)) is None


def test_a_node_cannot_answer_for_another() -> None:
    assert meet((A,), (A,), target=THREE) is None


def test_nothing_can_be_sent_back_to_its_maker() -> None:
    """An attacker without the key has two nodes, or one node twice, answer each other."""
    initiator = Initiator(ClusterKeys((A,)), TWO)
    with pytest.raises(InvalidFrame, match="before the other side's was verified"):
        initiator.proof(b"hello")
    # Node 1 dials the attacker, who asks node 1 itself for an answer.
    itself = Responder(ClusterKeys((A,)), ONE, initiator.challenge())
    assert not initiator.verify(itself.response())
    # A proof of an initiator is no confirmation, and the other way round.
    responder = Responder(ClusterKeys((A,)), TWO, initiator.challenge())
    assert initiator.verify(responder.response())
    proof = initiator.proof(b"hello")
    with pytest.raises(InvalidFrame, match="not proven by the cluster key"):
        initiator.confirmed(proof)
    assert responder.verify(proof) == A
    assert responder.verify(responder.confirm(b"hello")) == b""


def test_a_recorded_exchange_is_worth_nothing_the_next_time() -> None:
    initiator = Initiator(ClusterKeys((A,)), TWO)
    responder = Responder(ClusterKeys((A,)), TWO, initiator.challenge())
    response = responder.response()
    assert initiator.verify(response)
    proof = initiator.proof(b"hello")
    assert responder.verify(proof) == A
    assert not Initiator(ClusterKeys((A,)), TWO).verify(response)
    assert Responder(ClusterKeys((A,)), TWO, initiator.challenge()).verify(proof) == b""


@pytest.mark.parametrize("bit", [0, 100, 255])
def test_a_changed_bit_is_noticed(bit: int) -> None:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    initiator = Initiator(ClusterKeys((A,)), TWO)
    responder = Responder(ClusterKeys((A,)), TWO, initiator.challenge())
    response = responder.response()
    assert not initiator.verify(Response(flip(response.nonce), response.macs))
    assert not initiator.verify(Response(response.nonce, (flip(response.macs[0]),)))
    assert initiator.verify(response)
    proof = initiator.proof(b"h" * 32)
    assert responder.verify(ProvenHello(flip(proof.hello), proof.mac)) == b""
    assert responder.verify(ProvenHello(proof.hello, flip(proof.mac))) == b""
    assert responder.verify(proof) == A
    confirm = responder.confirm(b"h" * 32)
    for wrong in (
        ProvenHello(flip(confirm.hello), confirm.mac),
        ProvenHello(confirm.hello, flip(confirm.mac)),
    ):
        with pytest.raises(InvalidFrame):
            initiator.confirmed(wrong)
    assert initiator.confirmed(confirm) == A


def test_a_challenge_shows_a_nonce_and_a_response_nothing_that_repeats() -> None:
    keys = ClusterKeys((A,))
    first, second = Initiator(keys, TWO).challenge(), Initiator(keys, TWO).challenge()
    assert isinstance(first, Challenge)
    assert first != second
    responses = [Responder(keys, TWO, first).response() for _ in range(2)]
    assert responses[0].nonce != responses[1].nonce
    assert responses[0].macs != responses[1].macs


def test_a_key_file_is_lines_of_hexadecimal_digits() -> None:
    keys = ClusterKeys((draw_key(), draw_key()))
    assert parse_keys(format_keys(keys), "f") == keys
    assert parse_keys(b"# mine\n\n" + A.hex().upper().encode() + b"\r\n", "f").keys == (A,)
    assert parse_keys(A.hex().encode() + b"\n" + A.hex().encode(), "f").keys == (A,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "holds 0 cluster keys"),
        (b"# nothing\n", "holds 0 cluster keys"),
        (b"\n" + A.hex().encode()[:-1], "line 2 of f is no cluster key"),
        (b"z" * 64, "line 1 of f is no cluster key"),
        (b"\xff" * 64, "line 1 of f is no cluster key"),
        (b"\n".join(key.hex().encode() for key in (A, B, C)), "holds 3 cluster keys"),
    ],
)
def test_what_is_no_key_file_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        parse_keys(text, "f")


def test_a_key_is_never_shown() -> None:
    shown = repr(ClusterKeys((A,)))
    assert fingerprint(A) in shown
    assert A.hex() not in shown
    assert repr(A) not in shown
