"""Backups of a running cluster: a consistent cut, its files, verification, restore."""
