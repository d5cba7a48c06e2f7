"""The SQS front-end: Amazon's queue service, translated to calls of the engine."""
