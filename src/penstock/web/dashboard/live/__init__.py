"""Server-sent events and the caches that keep open pages cheap."""
