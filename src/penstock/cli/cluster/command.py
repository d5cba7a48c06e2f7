"""`penstock cluster …`: look at a running cluster and change it, through any of its nodes.

All but `dev` ask a broker's HTTP port. What changes something says what happens next, because it is
the cluster that brings it about, not the command.
"""

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, Yes, ask_back, print_json
from penstock.cli.cluster import key
from penstock.cli.table import print_table
from penstock.core.errors import LocalError
from penstock.core.plurals import counted
from penstock.engine.cluster.status import ClusterStatus, NodeStatus
from penstock.server.notation import MEMBERS

app = App(name="cluster", help="Show and change a running cluster.")
app.command(key.app)


@app.command
def status(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Show the nodes and shards of the cluster, and its health.

    Examples
    --------
    penstock cluster status
    penstock cluster status --json --url penstock://127.0.0.1:9092
    """
    found = _status(broker)
    if json:
        print_json(found)
        return
    print(f"cluster {found.cluster_id}: {found.health}")
    print(f"{counted(found.topics, 'topic')}, {counted(found.partitions, 'partition')}\n")
    _print_nodes(found.nodes)
    print()
    print_table(
        ("SHARD", "LEADER", "TERM", "VOTERS", "LEARNERS", "PARTITIONS", "COMMIT", "BYTES", "STATE"),
        [
            (
                shard.shard,
                shard.leader or "-",
                shard.term,
                _list(shard.voters),
                _list(shard.learners),
                shard.partitions,
                shard.commit,
                shard.size_bytes,
                "read-only" if shard.read_only else "full" if shard.full else "",
            )
            for shard in found.shards
        ],
        tones=["critical" if one.read_only or one.full else "" for one in found.shards],
        spare=("LEARNERS", "COMMIT", "TERM"),
    )


@app.command
def members(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """List the nodes of the cluster.

    Examples
    --------
    penstock cluster members
    """
    found = _status(broker)
    if json:
        print_json(found.nodes)
    else:
        _print_nodes(found.nodes)


@app.command
def add(
    member: Annotated[str, Parameter(help="The new node, as ID@HOST:PORT of its --peer.")],
    /,
    *,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Add a node to the cluster; it joins when it is started with an empty directory.

    Examples
    --------
    penstock cluster add 4@d.example:9192
    """
    try:
        ((node, address),) = MEMBERS.parse(member)
    except ValueError as error:
        raise LocalError(f'"{member}" must be ID@HOST:PORT, such as 4@127.0.0.1:9492') from error
    body = {"node": node, "peer": str(address)}
    answer = broker.ask("POST", "/v1/cluster/members", body)
    if json:
        print_json(msgspec.json.decode(answer))
        return
    others = [f"{one.node}@{one.peer}" for one in _status(broker).nodes if one.node != node]
    listed = ",".join([*others, f"{node}@{address}"])
    print(
        f"node {node} may join; copy the cluster key to it (the file cluster-key in the data\n"
        "directory of a node, or the file that the nodes were started with), and start it with:\n"
        f"penstock serve --node-id {node} --cluster {listed} --cluster-key-file FILE --data PATH"
    )


@app.command
def remove(
    node: Annotated[int, Parameter(help="The id of the node.")],
    /,
    *,
    yes: Yes = False,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Remove a node for good: its shards move to the others, and its id is never used again.

    Examples
    --------
    penstock cluster remove 4
    penstock cluster remove 4 --yes
    """
    if not yes:
        ask_back(
            str(node),
            warning=f"This would remove node {node}.",
            kept=f"that was not its id; node {node} stays",
            cannot=f"removing node {node} cannot be undone",
        )
    answer = broker.ask("DELETE", f"/v1/cluster/members/{node}")
    if json:
        print_json(msgspec.json.decode(answer))
    elif msgspec.json.decode(answer)["gone"]:
        print(f"node {node} is removed; stop its process")
    else:
        print(f"node {node} is leaving; its shards are still moving: penstock cluster status")


@app.command
def transfer(
    shard: Annotated[int, Parameter(help="The shard.")],
    node: Annotated[int, Parameter(help="The new leader.")],
    /,
    *,
    broker: BrokerAddress = HERE,
    json: Json = False,
) -> None:
    """Make a node lead a shard, now and whenever it can.

    Examples
    --------
    # node 3 leads shard 1
    penstock cluster transfer 1 3
    """
    body = {"shard": shard, "target": node}
    answer = broker.ask("POST", "/v1/cluster/transfer", body)
    if json:
        print_json(msgspec.json.decode(answer))
    else:
        print(f"shard {shard} is handed over to node {node}")


@app.command
def dev(
    *,
    nodes: Annotated[int, Parameter(help="The number of nodes.")] = 3,
    data: Annotated[
        str, Parameter(metavar="PATH", help="The parent of the nodes' data directories.")
    ] = "penstock-cluster",
    temporary: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Keep the data in a temporary directory and remove it at the end.",
        ),
    ] = False,
    base_port: Annotated[
        int | None,
        Parameter(
            metavar="PORT",
            help="Node 1 gets this port and the next two, node 2 those ten further, and so on;"
            " without it node 1 gets 9092 and 8080, if both are free, and the others free ports.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Run a cluster on this machine, one process a node, until Ctrl-C.

    Kill nodes and see what happens: a node that ends is reported with the command that starts it
    again. The data is found again at the next start with the same number of nodes.

    Examples
    --------
    penstock cluster dev
    penstock cluster dev --nodes 5 --temporary
    """
    from penstock.cli.cluster.local_cluster import run_local_cluster

    return run_local_cluster(
        nodes, data=None if temporary else data, base_port=base_port, json=json
    )


def _status(broker: BrokerAddress) -> ClusterStatus:
    return broker.ask_for("GET", "/v1/cluster", ClusterStatus)


def _print_nodes(nodes: tuple[NodeStatus, ...]) -> None:
    print_table(
        ("NODE", "STATE", "KAFKA", "HTTP", "PEER", "LEADS", "HOLDS"),
        [
            (
                node.node,
                _state(node),
                node.kafka or "-",
                node.http or "-",
                node.peer,
                node.leads,
                node.holds,
            )
            for node in nodes
        ],
        tones=["" if node.alive else "critical" for node in nodes],
        spare=("PEER", "HOLDS"),
    )


def _state(node: NodeStatus) -> str:
    if node.leaving:
        return "leaving"
    return "up" if node.alive else "no contact"


def _list(nodes: tuple[int, ...]) -> str:
    return " ".join(map(str, nodes)) or "-"
