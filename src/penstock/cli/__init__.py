"""The command line: `penstock …`."""
