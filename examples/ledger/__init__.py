"""Event sourcing: accounts whose history is the truth, and a view of them in SQLite."""
