"""`penstock bench …`: put a load on a broker and report what it did."""
