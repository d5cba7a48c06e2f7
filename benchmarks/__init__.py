"""What Penstock costs, measured: `make bench`."""
