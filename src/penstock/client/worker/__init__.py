"""Receiving by lease: prefetch, settlement and lease renewal."""
