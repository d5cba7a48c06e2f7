"""Orders in Django: a message for each order that was committed, and a worker that packs it."""
