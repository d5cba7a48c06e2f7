"""The trace of one message: its origin, its receivers and its fate."""
