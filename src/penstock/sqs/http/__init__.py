"""SQS's HTTP server: connections that carry SQS requests, without an ASGI server in between."""
