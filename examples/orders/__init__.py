"""Order processing with a payment saga: every order is charged exactly once, whatever dies."""
