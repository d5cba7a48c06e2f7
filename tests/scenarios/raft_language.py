"""The little language of `tests/scenarios/raft/*.txt`: one command a line, one event a line.

A file is prose (`# …`), commands, and after `----` what happened, up to the next empty line:

    # A cluster of one commits as soon as its disk has the entry.
    start voters=1
    campaign 1
    ----
    1 is pre-candidate of term 0
    …

Messages wait on the wire until `deliver` or `settle`; disks write at once unless told to be slow;
nothing is random (node n's election timeout is always T + n - 1 ticks); nothing happens by itself.

    start voters=1,2,3 [learners=4] [nodes=4,5] [any RaftSettings field=number]
    terms 2 1,1,4,4 [term=5] [vote=3]     give node 2 a log of entries of these terms, at first
    campaign 1 | tick 1 [n] | propose 1 text [count=n] [bytes=n] | read 1 | transfer 1 to=2
    members 1 voters=1,2 [learners=3]
    deliver [from=1] [to=2] [kind=Append…] [pick=n]      the nth of those that fit, or all
    drop (same options) | repeat (same; deliver, and keep a copy)
    settle [n]                 deliver until nothing is left (or n rounds)
    cut 1 2 | cut 1 | heal     what is sent over a cut link is lost
    disk 2 slow|fast | persist 2 [n]      n: that many Readies, the oldest first
    crash 2 | restart 2 | damage 2
    snapshot 1 [keep=n] | fetch 2
    status | logs | progress 1 | wire
    quietly <command>          the same, and say nothing

The block's output ends with nothing else: what a command did not print did not happen.
"""

from collections.abc import Callable

from penstock.core.entries import Entry, EntryKind, HardState, Membership, SnapshotMark
from penstock.core.errors import PenstockError
from penstock.core.types import NO_INDEX, Index, NodeId, Term
from penstock.raft import AnyMessage, RaftNode, RaftSettings, Ready
from tests.raft_memory import MemoryLog


class Chance:
    """Randomness without any: the same number each time."""

    def __init__(self, number: int) -> None:
        self._number = number

    def randrange(self, stop: int, /) -> int:
        return self._number % stop


class Actor:
    """One node, its disk, and what its shell is holding."""

    def __init__(self, node: NodeId) -> None:
        self.id = node
        self.disk = MemoryLog()
        self.raft: RaftNode | None = None
        self.slow = False
        self.unwritten: list[Ready] = []
        self.offered: SnapshotMark | None = None
        self.seen = ""
        self.members = ""
        self.commit = NO_INDEX


class Stage:
    """Runs the commands of one file; `run` returns the lines of what happened."""

    def __init__(self) -> None:
        self.actors: dict[NodeId, Actor] = {}
        self.founders = Membership()
        self.settings: dict[str, int] = {}
        self.wire: list[AnyMessage] = []
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self.lines: list[str] = []
        self.depth = 0

    def run(self, line: str) -> list[str]:
        self.lines = []
        words = line.split()
        quiet = words[0] == "quietly"
        if quiet:
            words = words[1:]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        command: Callable[[list[str], dict[str, str]], None] | None
        command = getattr(self, f"do_{words[0]}", None)
        assert command is not None, f"no such command: {line}"
        try:
            command(plain, options)
        except PenstockError as error:
            self.say(f"refused: {type(error).__name__}: {error}")
        return [] if quiet else self.lines

    def say(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    # The cast.

    def actor(self, word: str) -> Actor:
        node = NodeId(int(word))
        return self.actors.setdefault(node, Actor(node))

    def node(self, word: str) -> RaftNode:
        raft = self.actor(word).raft
        assert raft is not None, f"node {word} is down"
        return raft

    def do_terms(self, plain: list[str], options: dict[str, str]) -> None:
        disk = self.actor(plain[0]).disk
        terms = [Term(int(term)) for term in plain[1].split(",")]
        disk.hard_state = HardState(
            Term(int(options.get("term", terms[-1]))), NodeId(int(options.get("vote", 0)))
        )
        disk.append(
            tuple(
                Entry(Index(position), term, EntryKind.COMMAND, b"x")
                for position, term in enumerate(terms, start=1)
            )
        )

    def do_start(self, _plain: list[str], options: dict[str, str]) -> None:
        self.founders = Membership(
            ids(options.pop("voters")), learners=ids(options.pop("learners", ""))
        )
        extra = ids(options.pop("nodes", ""))
        self.settings = {name: int(value) for name, value in options.items()}
        for node in (*self.founders.everyone(), *extra):
            self.begin(self.actor(str(node)))
        self.lines.clear()

    def begin(self, actor: Actor) -> None:
        changes = actor.disk.memberships()
        if actor.disk.snapshot.index == NO_INDEX and actor.id in self.founders.everyone():
            changes.insert(0, (NO_INDEX, self.founders))
        settings = {"election_ticks": 10, "heartbeat_ticks": 1, **self.settings}
        actor.raft = RaftNode(
            RaftSettings(node=actor.id, prompt_commits=False, **settings),
            log=actor.disk,
            hard_state=actor.disk.hard_state,
            memberships=changes,
            random=Chance(actor.id - 1),
            damaged=actor.disk.damaged,
        )
        actor.commit = actor.raft.commit
        actor.members = actor.raft.membership.describe()
        actor.seen = ""
        self.pump(actor)

    # Commands to one node.

    def do_campaign(self, plain: list[str], _options: dict[str, str]) -> None:
        self.node(plain[0]).campaign()
        self.pump(self.actor(plain[0]))

    def do_tick(self, plain: list[str], _options: dict[str, str]) -> None:
        for _ in range(int(plain[1]) if len(plain) > 1 else 1):
            self.node(plain[0]).tick()
            self.pump(self.actor(plain[0]))

    def do_propose(self, plain: list[str], options: dict[str, str]) -> None:
        payload = plain[1].encode().ljust(int(options.get("bytes", 0)))
        for _ in range(int(options.get("count", 1))):
            self.node(plain[0]).propose([(EntryKind.COMMAND, payload)])
        self.pump(self.actor(plain[0]))

    def do_read(self, plain: list[str], _options: dict[str, str]) -> None:
        read_id = self.node(plain[0]).read()
        self.say(f"{plain[0]} asks read {read_id}")
        self.pump(self.actor(plain[0]))

    def do_transfer(self, plain: list[str], options: dict[str, str]) -> None:
        self.node(plain[0]).transfer(NodeId(int(options["to"])))
        self.pump(self.actor(plain[0]))

    def do_members(self, plain: list[str], options: dict[str, str]) -> None:
        wanted = Membership(ids(options["voters"]), learners=ids(options.get("learners", "")))
        self.node(plain[0]).propose_membership(wanted)
        self.pump(self.actor(plain[0]))

    def do_snapshot(self, plain: list[str], options: dict[str, str]) -> None:
        actor, raft = self.actor(plain[0]), self.node(plain[0])
        index = raft.applied_index
        mark = SnapshotMark(index, raft.term_at(index), raft.membership_at(index))
        actor.disk.take_snapshot(mark, 0)
        actor.disk.compact(Index(index + 1 - int(options.get("keep", 0))))
        raft.compacted()
        self.say(f"{plain[0]} has {actor.disk.describe()}")

    def do_fetch(self, plain: list[str], _options: dict[str, str]) -> None:
        actor = self.actor(plain[0])
        assert actor.offered is not None, f"nothing was offered to {plain[0]}"
        if not self.node(plain[0]).snapshot_fetched(actor.offered):
            self.say(f"{plain[0]} does not need it any more")
        self.pump(actor)

    def do_crash(self, plain: list[str], _options: dict[str, str]) -> None:
        actor = self.actor(plain[0])
        if actor.unwritten:
            self.say(f"{plain[0]} loses what it was writing")
        actor.raft = None
        actor.unwritten.clear()

    def do_restart(self, plain: list[str], _options: dict[str, str]) -> None:
        self.begin(self.actor(plain[0]))

    def do_damage(self, plain: list[str], options: dict[str, str]) -> None:
        self.do_crash(plain, options)
        self.actor(plain[0]).disk.damage()
        self.do_restart(plain, options)

    def do_disk(self, plain: list[str], _options: dict[str, str]) -> None:
        actor = self.actor(plain[0])
        actor.slow = plain[1] == "slow"
        if not actor.slow:
            self.persist(actor, len(actor.unwritten))

    def do_persist(self, plain: list[str], _options: dict[str, str]) -> None:
        actor = self.actor(plain[0])
        self.persist(actor, int(plain[1]) if len(plain) > 1 else len(actor.unwritten))

    # The wire.

    def do_deliver(self, _plain: list[str], options: dict[str, str]) -> None:
        chosen = self.take(options)
        for message in chosen:
            self.arrive(message)

    def do_repeat(self, _plain: list[str], options: dict[str, str]) -> None:
        """Deliver, and leave copies on the wire: a network may do that."""
        chosen = self.take(options)
        self.wire[:0] = chosen
        for message in chosen:
            self.arrive(message)

    def do_drop(self, _plain: list[str], options: dict[str, str]) -> None:
        for message in self.take(options):
            self.say(f"lost: {message.describe()}")

    def do_settle(self, plain: list[str], options: dict[str, str]) -> None:
        for _ in range(int(plain[0]) if plain else 50):
            if not self.wire:
                return
            self.do_deliver([], options)
        assert plain, "this never settles"

    def take(self, options: dict[str, str]) -> list[AnyMessage]:
        positions = [
            position
            for position, message in enumerate(self.wire)
            if message.source == int(options.get("from", message.source))
            and message.target == int(options.get("to", message.target))
            and options.get("kind", "") in type(message).__name__
        ]
        if "pick" in options:
            positions = [positions[int(options["pick"]) - 1]]
        chosen = [self.wire[position] for position in positions]
        self.wire = [m for position, m in enumerate(self.wire) if position not in positions]
        return chosen

    def arrive(self, message: AnyMessage) -> None:
        target = self.actors[message.target]
        self.say(message.describe() + ("" if target.raft is not None else " (down)"))
        if target.raft is not None:
            self.depth += 1
            target.raft.step(message)
            self.pump(target)
            self.depth -= 1

    def do_cut(self, plain: list[str], _options: dict[str, str]) -> None:
        nodes = [NodeId(int(word)) for word in plain]
        others = nodes[1:] or [node for node in self.actors if node != nodes[0]]
        for other in others:
            self.cuts |= {(nodes[0], other), (other, nodes[0])}

    def do_heal(self, _plain: list[str], _options: dict[str, str]) -> None:
        self.cuts.clear()

    # What to look at.

    def do_status(self, _plain: list[str], _options: dict[str, str]) -> None:
        for actor in self.actors.values():
            self.say(actor.raft.describe() if actor.raft is not None else f"node {actor.id} down")

    def do_logs(self, _plain: list[str], _options: dict[str, str]) -> None:
        for actor in self.actors.values():
            self.say(f"{actor.id}: {actor.disk.describe()}")

    def do_progress(self, plain: list[str], _options: dict[str, str]) -> None:
        for view in self.node(plain[0]).progress():
            self.say(view.describe())

    def do_wire(self, _plain: list[str], _options: dict[str, str]) -> None:
        for message in self.wire:
            self.say(message.describe())

    # The shell of a node.

    def pump(self, actor: Actor) -> None:
        raft = actor.raft
        assert raft is not None
        self.notice(actor, raft)
        while (ready := raft.ready()) is not None:
            self.post(ready.messages)
            self.show_writes(actor, ready)
            self.show_results(actor, ready)
            if ready.committed:
                raft.applied(ready.committed[-1].index)
            if ready.must_persist:
                actor.unwritten.append(ready)
                if not actor.slow:
                    self.persist(actor, 1)
            self.notice(actor, raft)

    def persist(self, actor: Actor, count: int) -> None:
        done, actor.unwritten = actor.unwritten[:count], actor.unwritten[count:]
        raft = actor.raft
        if not done or raft is None:
            return
        for ready in done:
            actor.disk.persist(ready)
        if actor.slow:
            self.say(f"{actor.id} has it on disk: {actor.disk.describe()}")
        for ready in done:
            self.post(ready.promises)
            raft.persisted(ready.sequence)
        self.notice(actor, raft)
        self.pump(actor)

    def post(self, messages: tuple[AnyMessage, ...]) -> None:
        self.wire += [m for m in messages if (m.source, m.target) not in self.cuts]

    def notice(self, actor: Actor, raft: RaftNode) -> None:
        """Say what has changed about a node since we last looked."""
        seen = f"{raft.role.value} of term {raft.term}"
        if raft.leader and raft.leader != actor.id:
            seen += f", behind {raft.leader}"
        if raft.transfer_target:
            seen += f", handing over to {raft.transfer_target}"
        if raft.damaged:
            seen += ", damaged"
        if seen != actor.seen:
            actor.seen = seen
            self.say(f"{actor.id} is {seen}")
        members = raft.membership.describe()
        if members != actor.members:
            actor.members = members
            self.say(f"{actor.id} takes members to be {members}")
        if raft.commit > actor.commit:
            actor.commit = raft.commit
            self.say(f"{actor.id} commits up to {raft.commit}")

    def show_writes(self, actor: Actor, ready: Ready) -> None:
        if ready.snapshot is not None:
            self.say(f"{actor.id} installs snapshot {ready.snapshot.index}/{ready.snapshot.term}")
        if ready.hard_state is not None:
            vote = ready.hard_state.vote or "nobody"
            self.say(f"{actor.id} writes term {ready.hard_state.term}, vote for {vote}")
        if ready.entries:
            names = ", ".join(f"{e.index}/{e.term} {name(e)}" for e in ready.entries)
            replaced = ready.entries[0].index <= actor.disk.last_index and not actor.unwritten
            self.say(f"{actor.id} {'replaces from' if replaced else 'writes'} {names}")
        if ready.healed:
            self.say(f"{actor.id} writes that it is whole again")

    def show_results(self, actor: Actor, ready: Ready) -> None:
        if ready.committed:
            text = ", ".join(f"{e.index} {name(e)}" for e in ready.committed)
            self.say(f"{actor.id} applies {text}")
        for read in ready.reads:
            self.say(f"{actor.id} may answer read {read.read_id} at index {read.index}")
        if ready.offered is not None:
            actor.offered = ready.offered.mark
            self.say(f"{actor.id} is to fetch snapshot {actor.offered.index}/{actor.offered.term}")


def ids(text: str) -> tuple[NodeId, ...]:
    return tuple(NodeId(int(word)) for word in text.split(",") if word)


def name(entry: Entry) -> str:
    """A command by its text, anything else by its kind."""
    if entry.kind is EntryKind.COMMAND:
        return entry.payload.decode().strip()
    return entry.kind.name
