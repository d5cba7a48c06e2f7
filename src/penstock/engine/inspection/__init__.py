"""Answers about messages, logs and the cluster: traces, surveys, samples, audit."""
