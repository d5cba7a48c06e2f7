"""`penstock mcp`: the tools of an assistant, and the further ones if changes are allowed."""
