"""The cluster key on this node: where it is kept, and whether it is required.

    data directory      cluster-key           the keys, mode 0600 (see `peers.cluster_key`)
                        node                  `keyed`: every peer must have the key

A key file that the node is started with (`--cluster-key-file`) takes the place of the one in the
directory. The key of a cluster of one is drawn when it is founded. Nodes that found a cluster
together, and nodes that join one, are started with a key file: any other proof that
they belong together could be given by a stranger as well.
"""

import os
import stat
from collections.abc import Callable

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.errors import DamagedFile, DirectoryRefused, InvalidRequest
from penstock.engine.cluster.node_file import NodeFile, store_node_file
from penstock.engine.peers.cluster_key import ClusterKeys, draw_key, format_keys, parse_keys
from penstock.storage import Disk
from penstock.storage.envelope import read_whole, replace_whole

KEY_FILE = "cluster-key"
SHARED_KEY_FILE = "cluster.key"
KEY_FILE_BYTES_MAX = 4096


class Keyring:
    """The keys of one node."""

    def __init__(
        self, disk: Disk, directory: str, given: str | None, announce: Callable[[str], None]
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._given = given
        self._announce = announce
        self.keys = ClusterKeys()
        self.required = False

    @property
    def path(self) -> str:
        """The file with the keys: one that was given, or the one in the data directory."""
        return self._given or os.path.join(self._directory, KEY_FILE)

    @property
    def is_given(self) -> bool:
        """The keys come from a file that the node was started with; only its owner changes them."""
        return self._given is not None

    def open(self, file: NodeFile, *, alone: bool) -> None:
        """Find the keys at the start; `alone`: a new directory is to be a cluster of one."""
        stored = load_keys(self._disk, self._directory)
        if self._given is not None:
            self.keys = read_key_file(self._given, self._announce)
        elif stored is not None:
            self.keys = stored
        if file.cluster_id:
            self.required = file.keyed
        else:
            self.required = True
            if not self.keys and alone:
                self.keep(ClusterKeys((draw_key(),)))
        if self.required and not self.keys:
            raise _key_missing(self._directory, is_new=not file.cluster_id)

    def keep(self, keys: ClusterKeys) -> None:
        """Have other keys from now on, durably."""
        if self.is_given:
            raise InvalidRequest(
                f"the cluster key of this node comes from the file {self._given}, which only you"
                " change: write the new key above the old one in the file of every node, restart"
                " the nodes one by one, then do the same again without the old key"
            )
        if keys != self.keys:
            store_keys(self._disk, self._directory, keys)
            self.keys = keys

    def require(self, file: NodeFile) -> NodeFile:
        """Never talk without a proof again; returns the new content of the node file."""
        keyed = msgspec.structs.replace(file, keyed=True)
        store_node_file(self._disk, self._directory, keyed)
        self.required = True
        return keyed


def load_keys(disk: Disk, directory: str) -> ClusterKeys | None:
    """The keys in a data directory; None if there are none."""
    path = os.path.join(directory, KEY_FILE)
    data = read_whole(disk, path)
    if data is None:
        return None
    content, checksum = data[: -len(_checksum(b""))], data[-len(_checksum(b"")) :]
    if checksum != _checksum(content):
        raise DamagedFile(
            path=path,
            position=0,
            problem="it does not match its checksum",
            way_out="Copy it from the data directory of another node of the cluster, or start this"
            " node with --cluster-key-file",
        )
    return parse_keys(content, path)


def store_keys(disk: Disk, directory: str, keys: ClusterKeys) -> None:
    """Write the keys into a data directory, for the owner's eyes only."""
    path = os.path.join(directory, KEY_FILE)
    content = format_keys(keys)
    replace_whole(disk, path, content + _checksum(content), private=True)


def _checksum(content: bytes) -> bytes:
    """The last line, a comment: the file can be given to another node as it is."""
    return b"# CRC-32C %08x\n" % crc32c(content)


def read_key_file(path: str, announce: Callable[[str], None] = lambda _line: None) -> ClusterKeys:
    """The keys of a file written by an operator."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(KEY_FILE_BYTES_MAX)
    except OSError as error:
        raise InvalidRequest(
            f"the cluster key file {path} cannot be read: {error.strerror or error}"
        ) from None
    if mode & stat.S_IROTH:
        announce(f"warns: every user of this machine may read the cluster key in {path}; chmod 600")
    return parse_keys(data, path)


def create_key_file(path: str) -> ClusterKeys:
    """Make a file with a new key, which only its owner may read; refuses to replace a file."""
    keys = ClusterKeys((draw_key(),))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InvalidRequest(f"{path} is there already; a key is not written over a file") from None
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be made: {error.strerror or error}") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(format_keys(keys))
        file.flush()
        os.fsync(file.fileno())
    return keys


def shared_key_file(directory: str) -> str:
    """The key file beside the data directories of nodes that one program starts."""
    path = os.path.join(directory, SHARED_KEY_FILE)
    if not os.path.exists(path):
        create_key_file(path)
    return path


def _key_missing(directory: str, *, is_new: bool) -> DirectoryRefused:
    if is_new:
        return DirectoryRefused(
            "nodes of a cluster need a key in common, and this one has none: make a file with"
            " `penstock cluster key create PATH`, or take the file cluster-key from the data"
            " directory of a node of the cluster; copy it to every node and start each with"
            " --cluster-key-file PATH"
        )
    return DirectoryRefused(
        f"{os.path.join(directory, KEY_FILE)} is missing: copy it from the data directory of"
        " another node of the cluster, or start this one with --cluster-key-file PATH"
    )
