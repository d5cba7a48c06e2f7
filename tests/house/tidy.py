"""The house style as code: each rule is a function from a file to its complaints.

A complaint is `line: what is wrong`. A rule that needs to see all files at once takes the list. The
rules are tried on bad samples in `test_tidy.py`: a rule that cannot fail is no rule.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from tests.house.sources import Source

FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 100
FILE_LINES_MAX = 1000
FILE_LINES_WITHOUT_REASON_MAX = 600
REASON = "Long because"

_BANNED_WORDS = {
    "common", "handler", "handlers", "helper", "helpers", "manager", "managers", "misc", "util",
    "utils",
}  # fmt: skip
_BANNED_IMPORTS = {"cPickle", "dill", "marshal", "mock", "pickle", "shelve", "unittest.mock"}
_BANNED_CALLS = {"__import__", "eval", "exec"}
_SLEEPLESS = (
    "tests/house",
    "tests/properties",
    "tests/scenarios",
    "tests/simulation",
    "tests/unit",
)

_CLOCKLESS = ("tests/properties", "tests/scenarios", "tests/simulation", "tests/unit")
_DATES = {"datetime.now", "datetime.today", "datetime.utcnow"}
_TIMES = {
    f"{name}{unit}"
    for name in ("clock_gettime", "monotonic", "perf_counter", "process_time", "time")
    for unit in ("", "_ns")
} | {"thread_time", "thread_time_ns"}
_OWN_CLOCKS = {"SystemClock", "precise_seconds", "worked_seconds"}
_MANUAL_LOOP = "tests.manual_loop"
CLOCKS_ALLOWED = {
    "tests/simulation/run.py": "a program, which says how long it took",
    "tests/unit/cli/doctor/test_machine.py": "a broker's clock beside the machine's",
    "tests/unit/client/reader/test_membership.py": "a deadline that is never reached",
    "tests/unit/client/test_processed_ids.py": "a time in the far future",
    "tests/unit/core/test_clock.py": "the real clock itself, held against the machine's",
    "tests/unit/spark/test_compaction.py": "sets the age of files, which the file system measures",
    "tests/unit/test_manual_loop.py": "timers of a loop whose time is moved",
    "tests/unit/testing/test_clock.py": "that the real clock has the same type",
    "tests/unit/web/test_queues.py": "patience with a broker on another thread",
}
"""Files below `_CLOCKLESS` that may read a clock, and why no outcome depends on it."""
SLEEPS_ALLOWED = {
    "tests/unit/embedded/test_engine.py": "a slow disk, on its own thread; however slow, it is"
    " waited for",
}
"""Files that may let real time pass, and why no outcome depends on how much."""
PASSES_SECONDS = 0.1
PATIENCE_SECONDS_MIN = 30
"""A limit of time is meant to pass, or never to be reached; what lies between is a race."""

_MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|Users|work|tmp)/[\w.]|\b[A-Z]:\\\\?[A-Za-z]")
_MACHINE_HOST = re.compile(
    r"\b(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d{1,3}\.\d{1,3}\b"
    r"|\b[\w-]+\.(?:internal|corp|intra|lan)\b"
)
_MARK = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")

Complaints = Iterator[str]
Rule = Callable[[Source], Complaints]
WholeRule = Callable[[Sequence[Source]], Complaints]


def functions_fit_a_screen(source: Source) -> Complaints:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def lines_fit(source: Source) -> Complaints:
    for number, line in enumerate(source.lines, 1):
        if len(line) > LINE_COLUMNS_MAX and "://" not in line:
            yield f"{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}"


def files_are_short_or_say_why(source: Source) -> Complaints:
    lines = len(source.lines)
    if lines > FILE_LINES_MAX:
        yield f"1: {lines} lines, at most {FILE_LINES_MAX}"
    elif lines > FILE_LINES_WITHOUT_REASON_MAX:
        if REASON not in (ast.get_docstring(source.tree) or ""):
            yield f'1: {lines} lines; say "{REASON} …" in the docstring, or split'


def modules_open_with_a_docstring(source: Source) -> Complaints:
    if source.text and not ast.get_docstring(source.tree):
        yield "1: a module opens with a docstring: what it is and which rules hold in it"


def names_are_nouns_of_the_domain(source: Source) -> Complaints:
    names = [(1, part) for part in source.path.removesuffix(".py").split("/")]
    names += [
        (node.lineno, node.name)
        for node in source.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    for line, name in names:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")
        for word in sorted(_BANNED_WORDS.intersection(words)):
            yield f'{line}: "{word}" in {name} says nothing; name it after what it is'


def marks_have_an_issue(source: Source) -> Complaints:
    for line, text in source.comments:
        if found := _MARK.search(text):
            yield f"{line}: {found.group()} without an issue number, as in {found.group()}(#12)"


def comments_are_sentences_not_code(source: Source) -> Complaints:
    for line, text in source.comments:
        if text.startswith(("noqa", "type:", "fmt:", "ruff:", "pragma:", "!")):
            continue
        try:
            statements = ast.parse(text).body
        except (SyntaxError, ValueError):
            continue
        if any(_is_code(statement) for statement in statements):
            yield f"{line}: commented-out code: {text}"


def _is_code(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call | ast.Await | ast.Yield)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None  # `Note: this` parses as an annotation.
    return True


def exceptions_are_named(source: Source) -> Complaints:
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{node.lineno}: a bare except; catch what you can act on"


def nothing_is_executed_that_was_read(source: Source) -> Complaints:
    for node in source.nodes:
        for name in sorted(_imported(node)):
            if name in _BANNED_IMPORTS:
                yield f"{node.lineno}: {name} is not used here"  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in _BANNED_CALLS:
                yield f"{node.lineno}: {node.func.id}() is not used here"


def only_programs_print(source: Source) -> Complaints:
    if source.within("src/penstock/cli", "tests", "benchmarks", "examples"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "print":
                yield f"{node.lineno}: only the command line prints"


def tests_never_sleep(source: Source) -> Complaints:
    if not source.within(*_SLEEPLESS) or source.path in SLEEPS_ALLOWED:
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "sleep" and [ast.unparse(part) for part in node.args] != ["0"]:
                yield f"{node.lineno}: a test does not sleep; it moves the clock"
            if ast.unparse(node.func) == "threading.Event().wait" and node.args:
                yield f"{node.lineno}: to wait for what nobody sets is to sleep"
        if isinstance(node, ast.ImportFrom) and {"asyncio.sleep", "time.sleep"} & _imported(node):
            yield f"{node.lineno}: sleep by another name; a test moves the clock"


def tests_read_no_clock(source: Source) -> Complaints:
    if not source.within(*_CLOCKLESS) or source.path in CLOCKS_ALLOWED:
        return
    imported = set().union(*map(_imported, source.nodes))
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom):
            for name in sorted(_imported(node)):
                module, _, part = name.rpartition(".")
                if (module == "time" and part in _TIMES) or part in _OWN_CLOCKS:
                    yield f"{node.lineno}: {part} is real time; hand a clock in and move it"
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if _is_clock(node, name, has_manual_loop=_MANUAL_LOOP in imported):
                yield f"{node.lineno}: {name} depends on real time; hand a clock in and move it"


def _is_clock(node: ast.Attribute, name: str, *, has_manual_loop: bool) -> bool:
    owner, _, part = name.rpartition(".")
    if name in _DATES or (owner == "time" and part in _TIMES) or part in ("call_at", "call_later"):
        return True
    return part == "time" and owner.endswith(("loop", "loop()")) and not has_manual_loop


def tests_wait_briefly_or_patiently(source: Source) -> Complaints:
    if not source.within(*_CLOCKLESS):
        return
    has_manual_loop = any(_MANUAL_LOOP in _imported(node) for node in source.nodes)
    constants = {} if has_manual_loop else _constants(source)
    has_threads = any("threading" in _imported(node) for node in source.nodes)
    for node in source.nodes:
        if has_manual_loop and isinstance(node, ast.BinOp):
            continue
        for limit in _limits(node, has_threads=has_threads):
            seconds = constants.get(limit.id) if isinstance(limit, ast.Name) else _number(limit)
            if seconds is not None and PASSES_SECONDS < seconds < PATIENCE_SECONDS_MIN:
                yield (
                    f"{limit.lineno}: {seconds} s may or may not be enough; at least"
                    f" {PATIENCE_SECONDS_MIN}, or at most {PASSES_SECONDS} if it is to pass"
                )


def _number(node: ast.expr | None) -> float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _constants(source: Source) -> dict[str, float]:
    """The numbers that have a name in this module."""
    found: dict[str, float] = {}
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            number = _number(node.value)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if number is not None:
                found |= {target.id: number for target in targets if isinstance(target, ast.Name)}
    return found


def _limits(node: ast.AST, *, has_threads: bool) -> list[ast.expr]:
    """What limits how long something may take: arguments of a call, and what is added to the time
    of a loop."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        is_deadline = ast.unparse(node.left).endswith(("loop.time()", "loop().time()"))
        return [node.right] if is_deadline else []
    if not isinstance(node, ast.Call):
        return []
    found = [one.value for one in node.keywords if one.arg in ("timeout", "wait")]
    match ast.unparse(node.func):
        case "asyncio.timeout":
            found += node.args[:1]
        case "asyncio.wait_for":
            found += node.args[1:2]
    if has_threads and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("acquire", "join", "result", "wait"):
            found += node.args[:1]
    return found


def whitespace_is_plain(source: Source) -> Complaints:
    if source.within("tests/scenarios") and source.path.endswith(".txt"):
        return  # Recorded output is kept to the last space.
    for number, line in enumerate(source.text.split("\n"), 1):
        if line != line.rstrip():
            yield f"{number}: whitespace at the end of the line"
        if "\t" in line and not source.path.endswith("Makefile"):
            yield f"{number}: a tab"
    if source.text and not source.text.endswith("\n"):
        yield f"{len(source.lines)}: the last line has no end"


def nothing_belongs_to_a_machine(source: Source) -> Complaints:
    for number, line in enumerate(source.lines, 1):
        for pattern, what in ((_MACHINE_PATH, "path"), (_MACHINE_HOST, "host")):
            if found := pattern.search(line):
                yield f"{number}: {found.group()} is a {what} of some machine"


def locks_name_no_host(source: Source) -> Complaints:
    for number, line in enumerate(source.lines, 1):
        if "://" in line or "index-url" in line or "find-links" in line:
            yield f"{number}: a lock file names no place to fetch from"


def markdown_has_one_title(source: Source) -> Complaints:
    """The title is the first line, or the first one after front matter, as in issue templates."""
    fenced = False
    titles = []
    lines = source.lines
    first = 1
    if lines and lines[0] == "---" and "---" in lines[1:]:
        first = lines.index("---", 1) + 3
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and line.startswith("# "):
            titles.append(number)
    if titles != [first]:
        where = ", ".join(map(str, titles)) or "nowhere"
        yield f"1: a page has one title, on its first line; found on: {where}"


FOR_USERS = ("src/penstock/integrations", "src/penstock/testing")
DJANGO = "src/penstock/integrations/django"


def no_module_is_dead(sources: Sequence[Source]) -> Complaints:
    """Every module is imported by another one, or is run.

    A module of the package counts as alive only if the package itself uses it; `testing` and
    `integrations` are there for users, so tests and examples count. Django finds some by their
    names. A module that is run says so with `__main__`, or is named in
    pyproject.toml or as the target of a lazy import (`"penstock.cli.broker.log:app"`).
    """
    users: dict[str, set[str]] = {}
    named = ""
    for source in sources:
        if source.is_python:
            for node in source.nodes:
                for name in _imported(node):
                    users.setdefault(name, set()).add(source.path)
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    if re.fullmatch(r"[\w.]+:\w+", node.value):
                        named += f" {node.value}"
        elif source.path in ("Makefile", "pyproject.toml"):
            named += source.text
    for source in sources:
        name = source.path.rsplit("/", 1)[-1]
        if not source.is_python or name.startswith(("test_", "conftest", "__")):
            continue
        by = users.get(source.module, set()) - {source.path}
        if source.within(DJANGO) and re.search(r"/apps\.py$|/commands/", source.path):
            continue
        if source.within("src") and not source.within(*FOR_USERS):
            by = {path for path in by if path.startswith("src/")}
        runs = 'if __name__ == "__main__"' in source.text
        if not by and not runs and not re.search(rf"\b{re.escape(source.module)}\b", named):
            yield f"{source.path}: nobody imports it and nobody runs it"


def _imported(node: ast.AST) -> set[str]:
    """The modules an import statement may mean; `from a import b` may mean a or a.b."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module is not None:
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return set()


PYTHON_RULES: tuple[Rule, ...] = (
    functions_fit_a_screen,
    lines_fit,
    files_are_short_or_say_why,
    modules_open_with_a_docstring,
    names_are_nouns_of_the_domain,
    marks_have_an_issue,
    comments_are_sentences_not_code,
    exceptions_are_named,
    nothing_is_executed_that_was_read,
    only_programs_print,
    tests_never_sleep,
    tests_read_no_clock,
    tests_wait_briefly_or_patiently,
)
TEXT_RULES: tuple[Rule, ...] = (whitespace_is_plain, nothing_belongs_to_a_machine)
MARKDOWN_RULES: tuple[Rule, ...] = (markdown_has_one_title,)
LOCK_RULES: tuple[Rule, ...] = (locks_name_no_host,)
WHOLE_RULES: tuple[WholeRule, ...] = (no_module_is_dead,)


def rules_for(source: Source) -> tuple[Rule, ...]:
    """The rules a file must follow."""
    rules = TEXT_RULES
    if source.is_python:
        rules += PYTHON_RULES
    if source.is_markdown:
        rules += MARKDOWN_RULES
    if source.path.endswith(".lock"):
        rules += LOCK_RULES
    return rules
