"""Found by Spark by its name: whatever is called `pyspark_…` and has a `DefaultSource` is a format.

Spark imports all such modules before it looks for any one format, and gives up on all of them if
one raises. So this imports little: the client is imported when the format is used.
"""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
