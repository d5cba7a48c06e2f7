"""Commands about messages: produce, consume and trace, with their formats."""
