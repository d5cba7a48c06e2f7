"""The entry of `INSTALLED_APPS`: it brings the command `penstock_work` and has no models."""

from django.apps import AppConfig


class PenstockConfig(AppConfig):  # type: ignore[misc]
    """Django asks for a class; what it needs to know is the name and the label."""

    name = "penstock.integrations.django"
    label = "penstock"
    verbose_name = "Penstock"
