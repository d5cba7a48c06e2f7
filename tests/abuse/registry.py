"""The table of hostile cases.

A case is one small function that attacks a running broker; its docstring names what it tries. The
decorator `case` enters it into `CASES` under the name of the function. Whether the broker held is
decided by the oracles, which are the same for all cases (`oracles`); a case raises `Broken` itself
only if an answer shows a harm that no measurement can see, such as a forged audit record.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.abuse.target import Target

Attack = Callable[["Target"], Awaitable[None]]

GROUPS: Final = (
    "kafka",
    "native",
    "sqs",
    "web",
    "peer",
    "batches",
    "state",
    "internal",
    "connections",
    "process",
)
"""The cases by the port, or the resource, that they attack."""


class Broken(AssertionError):
    """The broker did what it must not do."""


@dataclass(frozen=True)
class Case:
    """One attack."""

    name: str
    group: str
    finding: str
    """The finding of the security review that it stems from; empty if it held there."""
    what: str
    attack: Attack
    nodes: int = 1
    alone: bool = False
    """It may break the broker for good: it gets one of its own, and a restart after it."""
    seconds: float = 30.0
    """An attack that takes longer is ended; that is no failure."""
    kill_after: bool = True
    """The broker is killed and started again afterwards; False: the case ends it by itself."""
    flags: tuple[str, ...] = ()
    """Settings of the broker on top of the defaults; the case is alone then."""
    kept_mib: int = 0
    """What it may leave behind in memory, if it is state that was asked for; 0: as every case."""
    stall_seconds: float = 0.0
    """How long the good client may wait, where there is a reason for more; 0: as every case."""
    elects: bool = False
    """Nodes may elect: what arrives is what a node that holds the cluster key may say."""


CASES: dict[str, Case] = {}


def add_case(case: Case) -> None:
    """Enter a case into the table."""
    assert case.name not in CASES, f"two cases are named {case.name}"
    assert case.group in GROUPS, f"{case.name}: there is no group {case.group}"
    assert case.what, f"{case.name} does not say what it tries"
    CASES[case.name] = case


def case(
    group: str,
    finding: str = "",
    *,
    nodes: int = 1,
    alone: bool = False,
    seconds: float = 30.0,
    kill_after: bool = True,
    flags: tuple[str, ...] = (),
    kept_mib: int = 0,
    stall_seconds: float = 0.0,
    elects: bool = False,
) -> Callable[[Attack], Attack]:
    """Make a case of a function."""

    def enter(attack: Attack) -> Attack:
        add_case(
            Case(
                name=attack.__name__.replace("_", "-"),
                group=group,
                finding=finding,
                what=" ".join((attack.__doc__ or "").split()),
                attack=attack,
                nodes=nodes,
                alone=alone or bool(flags),
                seconds=seconds,
                kill_after=kill_after,
                flags=flags,
                kept_mib=kept_mib,
                stall_seconds=stall_seconds,
                elects=elects,
            )
        )
        return attack

    return enter
