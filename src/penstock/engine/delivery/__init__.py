"""Delivery of queue messages by lease: acquire, read, settle, give back."""
