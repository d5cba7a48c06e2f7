"""Penstock in web frameworks. Each part needs its framework, and nothing else imports it.

penstock.integrations.fastapi    a lifespan and a dependency
penstock.integrations.django     an application: sending on commit, a command that runs workers
"""
