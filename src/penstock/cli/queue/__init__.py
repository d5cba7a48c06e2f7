"""`penstock queue …`: create, inspect and operate queues."""
