"""Links between nodes, and the requests that nodes send each other."""
