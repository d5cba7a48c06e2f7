"""One order through three services, as one trace."""
