"""A sheet to draw on: rectangles, lines, circles and words, as text of an SVG file.

Coordinates are rounded to a tenth, so that a picture drawn again from the same numbers is the same
file, byte by byte.
"""

from collections.abc import Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', Arial, sans-serif"
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_CHARACTER_WIDTH = 0.56
"""Of a letter's height, on average; good enough to keep words apart."""


def escape(text: str) -> str:
    """So that words stay words."""
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def place(value: float) -> str:
    """A coordinate: `12`, `12.5`."""
    # Adding zero turns -0.0 into 0.0.
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def width_of(words: str, size: float) -> float:
    """About how wide they will be."""
    return len(words) * size * _CHARACTER_WIDTH


class Sheet:
    """Collects shapes; later ones lie on top."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width = width
        self.height = height
        self._title = title
        self._shapes: list[str] = []

    def box(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        *,
        fill: str,
        radius: float = 0,
        stroke: str = "",
    ) -> None:
        """A rectangle."""
        edge = f' stroke="{stroke}"' if stroke else ""
        self._shapes.append(
            f'<rect x="{place(left)}" y="{place(top)}" width="{place(width)}"'
            f' height="{place(height)}" rx="{place(radius)}" fill="{fill}"{edge}/>'
        )

    def words(
        self,
        left: float,
        base: float,
        text: str,
        *,
        size: float,
        fill: str,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """One line of text; `anchor` is where `left` is: start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self._shapes.append(
            f'<text x="{place(left)}" y="{place(base)}" font-size="{place(size)}"'
            f' fill="{fill}"{weight}{at}>{escape(text)}</text>'
        )

    def line(
        self,
        points: Sequence[tuple[float, float]],
        *,
        stroke: str,
        width: float = 1,
        dashes: str = "",
    ) -> None:
        """From point to point."""
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        through = " ".join(f"{place(left)},{place(top)}" for left, top in points)
        self._shapes.append(
            f'<polyline points="{through}" fill="none" stroke="{stroke}"'
            f' stroke-width="{place(width)}" stroke-linejoin="round" stroke-linecap="round"{dash}/>'
        )

    def dot(self, left: float, top: float, radius: float, *, fill: str, stroke: str = "") -> None:
        """A circle; with a stroke, a ring."""
        edge = f' stroke="{stroke}" stroke-width="2"' if stroke else ""
        self._shapes.append(
            f'<circle cx="{place(left)}" cy="{place(top)}" r="{place(radius)}"'
            f' fill="{fill}"{edge}/>'
        )

    def text(self) -> str:
        """The whole file."""
        size = f'width="{place(self.width)}" height="{place(self.height)}"'
        view = f'viewBox="0 0 {place(self.width)} {place(self.height)}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} role="img"'
            f' font-family="{FONT}">'
        )
        title = f"<title>{escape(self._title)}</title>"
        return "\n".join([head, title, *self._shapes, "</svg>"]) + "\n"
