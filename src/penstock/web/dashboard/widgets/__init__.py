"""Pieces that several pages share: filters, payloads, message tables."""
