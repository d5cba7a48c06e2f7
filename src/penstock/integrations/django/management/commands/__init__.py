"""One module for each command; its name is that of the module."""
