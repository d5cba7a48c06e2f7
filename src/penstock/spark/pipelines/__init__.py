"""Pipelines: stages that read topics, check and change rows, and write topics or a lake."""
