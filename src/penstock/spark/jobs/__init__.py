"""Ready jobs: each one function, and one command of `penstock job`."""
