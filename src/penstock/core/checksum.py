"""CRC-32C: the checksum of Kafka's batches and of our records.

The package that computes it also determines its own version and has a command line, and importing
what those need takes a broker longer than to open its log. So only the module that computes is
imported, under its own name, so that another `import crc32c` finds the same one.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c"]

_PART = "crc32c._crc32c"


def _load_part() -> Any:
    if _PART in sys.modules:
        return sys.modules[_PART]
    package = find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec(_PART, places)
    assert spec is not None, f"there is no {_PART}; is crc32c installed?"
    assert spec.loader is not None, f"{_PART} cannot be loaded"
    part = sys.modules[_PART] = module_from_spec(spec)
    spec.loader.exec_module(part)
    return part


if TYPE_CHECKING:
    from crc32c import crc32c
else:
    crc32c = _load_part().crc32c
