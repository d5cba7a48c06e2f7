"""The native protocol's server side: what Python clients ask, answered by the engine."""
