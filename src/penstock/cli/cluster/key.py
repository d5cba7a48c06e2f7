"""`penstock cluster key …`: the secret by which the nodes of a cluster know each other."""

import os
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.engine.cluster.keys.key_store import KEY_FILE, create_key_file, read_key_file
from penstock.engine.peers.cluster_key import fingerprint

app = App(
    name="key",
    help="Create and show the secret with which the nodes of a cluster authenticate each other.",
)


@app.command
def create(
    path: Annotated[str, Parameter(help="The file to create.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Create a file with a new key, for nodes that found a cluster together.

    Copy it to every node, and start each with --cluster-key-file. Nobody but the nodes should be
    able to read it.

    Examples
    --------
    penstock cluster key create cluster.key
    """
    keys = create_key_file(path)
    if json:
        print_json({"path": path, "fingerprints": keys.fingerprints()})
        return
    print(f"{path} holds the new cluster key {keys.fingerprints()[0]}")


@app.command
def show_fingerprint(
    path: Annotated[str, Parameter(help="A key file, or the data directory of a node.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Show the names of the keys in a file, to compare them; a key cannot be made from its name.

    Examples
    --------
    penstock cluster key show-fingerprint cluster.key
    penstock cluster key show-fingerprint /var/lib/penstock
    """
    keys = read_key_file(os.path.join(path, KEY_FILE) if os.path.isdir(path) else path)
    if json:
        print_json({"fingerprints": keys.fingerprints()})
        return
    for key in keys.keys:
        print(fingerprint(key))


@app.command
def rotate(*, broker: BrokerAddress = HERE, json: Json = False) -> None:
    """Replace the key on all running nodes; all must be up.

    For keys in the data directories. Where nodes are started with --cluster-key-file, change the
    files: see the guide on running a cluster.

    Examples
    --------
    penstock cluster key rotate
    """
    answer = broker.ask("POST", "/v1/cluster/key/rotate", {})
    if json:
        print_json(msgspec.json.decode(answer))
        return
    (name,) = msgspec.json.decode(answer)["fingerprints"]
    print(f"every node has the new cluster key {name}; the old one is worth nothing any more")
