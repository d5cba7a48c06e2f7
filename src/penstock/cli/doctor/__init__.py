"""`penstock doctor`: checks of this machine, of a running broker, and of a production set-up."""
