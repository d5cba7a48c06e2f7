"""From `module:app` on a command line to an application.

    shop.orders:app     the `App` of that name in that module
    shop.orders         the module's only `App`, or the default application, if importing the
                        module declared workers in it

The working directory is looked in first, as `python -m` does. What cannot be found is said in one
sentence; an error inside the module is reported with its place.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from penstock.core.errors import LocalError
from penstock.workers.app import App
from penstock.workers.default import default_app
from penstock.workers.tracebacks import users_place


def load_app(target: str, *, directory: Path | None = None) -> App:
    """Import what `target` names; raises `LocalError` if it is not an application."""
    place = str((directory or Path.cwd()).resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    name, colon, attribute = target.partition(":")
    if not name or (colon and not attribute):
        raise LocalError(f'"{target}" must be MODULE or MODULE:APP, such as shop.orders:app')
    if "/" in name or (name.endswith(".py") and (Path(place) / name).is_file()):
        name = name.removesuffix(".py").replace("/", ".")
    module = _import(name, place)
    return _named(module, attribute) if attribute else _only(module)


def _import(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if missing and f"{name}.".startswith(f"{missing}."):
            raise LocalError(
                f"there is no module {name} in {place} or among the installed ones"
            ) from problem
        raise LocalError(_broken(name, problem)) from problem
    except Exception as problem:
        raise LocalError(_broken(name, problem)) from problem


def _broken(name: str, problem: Exception) -> str:
    place = (
        f"{problem.filename}:{problem.lineno}"
        if isinstance(problem, SyntaxError) and problem.filename
        else users_place(problem)
    )
    where = f" ({place})" if place else ""
    return f"module {name} cannot be imported: {type(problem).__name__}: {problem}{where}"


def _named(module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, App):
        return found
    if found is None:
        apps = sorted(_apps(module))
        told = (
            f"applications in it: {', '.join(apps)}"
            if apps
            else f"write `{attribute} = penstock.App()` there, and declare workers with"
            f" @{attribute}.worker(QUEUE)"
        )
        raise LocalError(f"module {module.__name__} has no {attribute}; {told}")
    raise LocalError(
        f"{attribute} of module {module.__name__} is a {type(found).__name__}, not a penstock.App"
    )


def _only(module: ModuleType) -> App:
    apps = _apps(module)
    distinct = list({id(app): app for app in apps.values()}.values())
    if len(distinct) == 1:
        return distinct[0]
    if len(distinct) > 1:
        names = ", ".join(f"{module.__name__}:{name}" for name in sorted(apps))
        raise LocalError(f"module {module.__name__} has several applications; name one: {names}")
    if default_app.tasks:
        return default_app
    raise LocalError(
        f"module {module.__name__} has no penstock.App, and declares no worker with"
        " @penstock.worker(...)"
    )


def _apps(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}
