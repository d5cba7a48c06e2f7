"""Pieces that several pages share: filters, badges, payloads, message tables."""
