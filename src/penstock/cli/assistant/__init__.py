"""`penstock mcp`: what an assistant may look at, and what it may do if it is allowed to."""
