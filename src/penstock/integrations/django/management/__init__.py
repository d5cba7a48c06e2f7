"""The commands that `manage.py` gets from this application."""
