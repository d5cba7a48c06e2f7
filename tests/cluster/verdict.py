"""What a checker found: anomalies by name, with examples, and figures."""

from collections import Counter
from dataclasses import dataclass, field

EXAMPLES_MAX = 8


@dataclass
class Finding:
    """All occurrences of one anomaly."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class Verdict:
    """The result of checking one history."""

    anomalies: dict[str, Finding] = field(default_factory=dict)
    """What must never happen and did."""
    allowed: Counter[str] = field(default_factory=Counter)
    """What may happen in the mode the clients were in, counted."""
    counts: Counter[str] = field(default_factory=Counter)
    """How much was at stake."""
    silence_seconds: float = 0.0
    """The longest time between two acknowledgements in which a send was waiting."""

    @property
    def valid(self) -> bool:
        return not self.anomalies

    def found(self, anomaly: str, example: str) -> None:
        finding = self.anomalies.setdefault(anomaly, Finding())
        finding.count += 1
        if len(finding.examples) < EXAMPLES_MAX:
            finding.examples.append(example)

    def describe(self) -> str:
        """A few lines for people."""
        counted = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        lines = [f"{counted}; longest silence {self.silence_seconds:.2f} s"]
        if self.allowed:
            allowed = ", ".join(f"{count:,} {what}" for what, count in sorted(self.allowed.items()))
            lines.append(f"allowed here: {allowed}")
        for name, finding in sorted(self.anomalies.items()):
            lines.append(f"{name}: {finding.count:,}")
            lines += [f"    {example}" for example in finding.examples]
        if self.valid:
            lines.append("no anomaly")
        return "\n".join(lines)
