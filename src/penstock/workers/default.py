"""The application of programs that do not name one.

`@penstock.worker("queue")` declares a worker in it, and `penstock work module` runs it. It is one
per process, so whatever modules a program imports, their workers are together.
"""

from penstock.workers.app import App

default_app = App()
"""The application that `@penstock.worker(...)` declares workers in."""

worker = default_app.worker
"""`App.worker` of the default application."""
