"""Commands that run a broker here or look at its files: serve, dev, demo, config, log."""
