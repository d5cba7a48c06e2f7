"""The cluster key: where a node keeps it, and how the members come by it and by another one."""
