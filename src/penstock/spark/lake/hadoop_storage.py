"""A lake on HDFS or in an object store, through Hadoop's file systems in Spark's own process.

To make an entry only if there is none of its number, what is atomic there is used:

    hdfs, viewfs, abfss, file   written aside, then renamed without the permission to replace. The
                                rename must be atomic: on abfss only with a hierarchical namespace
    s3a                         written in place, which S3 shows when it is complete, and only if
                                there is nothing (If-None-Match; Hadoop 3.4.2 or later)

Other schemes are refused: without one of the two, two writers could take the same number. What a
file system asks for besides, such as jars and credentials, is set as for any job of Spark.

It needs a Spark session that runs in this process, not one through Spark Connect.
"""

import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from penstock.core.errors import LocalError, StorageError
from penstock.spark.lake.storage import StoredFile

RENAMING = ("hdfs", "viewfs", "abfss", "abfs", "file")
CONDITIONAL = ("s3a",)
IF_NONE_MATCH = "fs.option.create.conditional.overwrite"


class HadoopStorage:
    """A directory that Hadoop knows; see `Storage`."""

    def __init__(self, root: str) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        scheme = urlsplit(root).scheme
        if scheme not in (*RENAMING, *CONDITIONAL):
            known = ", ".join(f"{one}://" for one in (*RENAMING, *CONDITIONAL))
            raise LocalError(
                f"{root}: a lake cannot be kept safe on {scheme}://; it can on a mounted directory"
                f" and on {known}"
            )
        session = SparkSession.getActiveSession()
        if session is None or not hasattr(session, "_jvm"):
            raise LocalError(
                f"{root} is reached through Spark: start a session in this process first"
                " (penstock.spark.session()), not one through Spark Connect"
            )
        self.root = root.rstrip("/")
        self._error = Py4JJavaError
        self._conditional = scheme in CONDITIONAL
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - there is no other way.
        self._gateway = gateway
        self._jvm = gateway.jvm
        configuration = session._jsc.hadoopConfiguration()  # noqa: SLF001
        try:
            self._files = self._path("").getFileSystem(configuration)
            self._context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                self._path("").toUri(), configuration
            )
        except Py4JJavaError as error:
            raise StorageError(f"{root} cannot be reached: {_told(error)}") from error

    def names(self, folder: str) -> list[str]:
        return [
            name
            for status in self._statuses(self._path(folder))
            if not (name := status.getPath().getName()).startswith(".")
        ]

    def read(self, path: str) -> bytes | None:
        try:
            stream = self._files.open(self._path(path))
        except self._error as error:
            if _kind(error) == "FileNotFoundException":
                return None
            raise self._failed(path, error) from error
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        except self._error as error:
            raise self._failed(path, error) from error
        finally:
            stream.close()

    def create(self, path: str, data: bytes) -> bool:
        try:
            if self._conditional:
                builder = self._files.createFile(self._path(path)).overwrite(True).recursive()
                self._write(builder.must(IF_NONE_MATCH, True).build(), data)
            else:
                folder, _, name = path.rpartition("/")
                draft = self._path(f"{folder}/.{name}.{uuid.uuid4().hex}")
                try:
                    self._write(self._files.create(draft, False), data)
                    self._context.rename(draft, self._path(path), self._no_options())
                finally:
                    self._files.delete(draft, False)
        except self._error as error:
            if _kind(error) in ("FileAlreadyExistsException", "RemoteFileChangedException"):
                return False
            raise self._failed(path, error) from error
        return True

    def remove(self, path: str) -> None:
        try:
            self._files.delete(self._path(path), False)
        except self._error as error:
            raise self._failed(path, error) from error

    def data_files(self) -> Iterator[StoredFile]:
        for status in self._files.globStatus(self._path("topic=*/date=*/*.parquet")) or ():
            path = "/".join(str(status.getPath().toUri().getPath()).split("/")[-3:])
            yield StoredFile(path, status.getLen(), status.getModificationTime())

    def locate(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _statuses(self, path: Any) -> list[Any]:
        try:
            return list(self._files.listStatus(path))
        except self._error as error:
            if _kind(error) == "FileNotFoundException":
                return []
            raise self._failed(str(path), error) from error

    def _write(self, stream: Any, data: bytes) -> None:
        stream.write(bytearray(data))
        stream.close()

    def _no_options(self) -> Any:
        """An empty array for the variable arguments of `rename`: nothing may be replaced."""
        return self._gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, 0)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)

    def _failed(self, path: str, error: Exception) -> StorageError:
        return StorageError(f"{self.root}/{path}: {_told(error)}")


def _kind(error: Any) -> str:
    return str(error.java_exception.getClass().getSimpleName())


def _told(error: Any) -> str:
    text = str(error.java_exception.getMessage() or error.java_exception)
    return text.splitlines()[0]
