"""How many of something, in words: every front-end and every alert says it alike."""


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 message", "2,000 messages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
