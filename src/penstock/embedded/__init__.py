"""The whole engine inside another program: `file:` and `memory:`."""
