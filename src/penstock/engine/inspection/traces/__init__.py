"""Where one message came from, who had it, and what became of it."""
