"""Draw a record's pictures again, without measuring:  python -m benchmarks.pictures [JSON …]"""

import sys
from pathlib import Path

from benchmarks.pictures.figures import draw
from benchmarks.record import read_document

RECORDED = Path("docs/benchmarks/results.json")


def main(arguments: list[str]) -> None:
    """Beside each file its pictures."""
    for path in [Path(one) for one in arguments] or [RECORDED]:
        for picture in draw(read_document(path), path.parent):
            print(picture)


if __name__ == "__main__":
    main(sys.argv[1:])
