"""One broker process: configuration, ports, signals, health and logs."""
