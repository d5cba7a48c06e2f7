"""The client: how programs send to and receive from Penstock."""
