"""Penstock: a distributed message queue in Python.

Only the version is public so far; the client comes with the broker.
"""

__all__ = ["__version__"]

__version__ = "0.1.0.dev0"
