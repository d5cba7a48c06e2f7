"""Coordination of consumer groups and share groups, their offsets and their lag."""
