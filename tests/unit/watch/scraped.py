"""A page of metrics as Prometheus reads it."""

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class Scraped:
    """Samples by name and labels."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.names = {
            family.name + "_total" * (family.type == "counter" and family.name[:8] != "process_")
            for family in families
        }
        """Of metrics, as the table has them."""
        self._samples: dict[str, list[Sample]] = {}
        for family in families:
            for one in family.samples:
                self._samples.setdefault(one.name, []).append(one)

    def value(self, name: str, **labels: str) -> float:
        """The one sample that has these labels, and perhaps others."""
        (found,) = self._matching(name, labels)
        return found.value

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Those with these labels, by another label."""
        return {one.labels[label]: one.value for one in self._matching(name, labels)}

    def total(self, name: str, **labels: str) -> float:
        """The sum of all that have these labels."""
        return sum(one.value for one in self._matching(name, labels))

    def _matching(self, name: str, labels: dict[str, str]) -> list[Sample]:
        return [one for one in self._samples.get(name, ()) if labels.items() <= one.labels.items()]


def read_open(text: str) -> list[Metric]:
    """A page in OpenMetrics."""
    return list(parse_open(text))  # type: ignore[no-untyped-call]
