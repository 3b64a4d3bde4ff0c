"""Bugs in small Python packages: an issue, public tests, and hidden tests that decide."""

import builtins
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from msgspec import Struct

from agentrl.errors import ConfigError, TaskError
from agentrl.generate.base import DIFFICULTIES, Split
from agentrl.generate.scene import Call, limits_for, meta_for, oracle_calls, task_id
from agentrl.generate.swe_bugs import SHAPES, Func, caller, draw
from agentrl.generate.values import Values, quoted
from agentrl.task import Task

PUBLIC = "tests/test_public.py"
HIDDEN = "hidden/test_hidden.py"
RAISED = object()


class Module(Struct, frozen=True):
    path: str
    funcs: tuple[Func, ...]

    @property
    def dotted(self) -> str:
        return dotted(self.path)

    def source(self, buggy: Sequence[Func] = ()) -> str:
        imports = "".join(f"{f.needs}\n" for f in self.funcs if f.needs)
        defs = "\n\n".join(f.source(f in buggy) for f in self.funcs)
        return f"{imports}\n\n{defs}" if imports else defs


class Project(Struct, frozen=True):
    """A package; `bugs` are wrong in the tree given to the agent, `shown` is what the issue
    calls (the bug itself, or its caller)."""

    package: str
    modules: tuple[Module, ...]
    bugs: tuple[Func, ...]
    shown: tuple[Func, ...]

    def files(self, fixed: bool = False) -> dict[str, str]:
        out = {f"{self.package}/__init__.py": ""}
        return out | {m.path: m.source(() if fixed else self.bugs) for m in self.modules}

    def home(self, func: Func) -> Module:
        return next(m for m in self.modules if func in m.funcs)


class SweGenerator:
    """Tasks for `list_files(path)`, `read_file(path)`, `search(pattern)`,
    `edit_file(path, old, new)`, `run_tests()` and `submit()`."""

    @property
    def families(self) -> Sequence[str]:
        return tuple(SHAPES)

    def make(self, family: str, difficulty: int, seed: int, split: Split) -> Task:
        """Raises ConfigError for a family or difficulty there is not.

        Every task is executed before it is handed out: its hidden tests pass on the clean
        package, and at least one fails on the buggy one.
        """
        if family not in SHAPES or difficulty not in DIFFICULTIES:
            raise ConfigError(
                f"swe has no family {family!r} of difficulty {difficulty}",
                help=f"families: {', '.join(SHAPES)}; difficulties 1 to 5",
            )
        for attempt in range(40):
            values = Values(f"swe/{family}/{difficulty}/{seed}/{attempt}", split)
            project = _project(values, family, difficulty)
            if not _editable(project):
                continue
            results = {f.name: _results(project, f) for m in project.modules for f in m.funcs}
            if all(_telling(*results[func.name]) for func in project.shown):
                task = _task(values, project, results, family, difficulty, seed, split)
                _check(task, project)
                return task
        raise TaskError(f"no bug came out of 40 tries for {family}/{difficulty}/{seed}")


def _project(v: Values, family: str, difficulty: int) -> Project:
    package = v.identifier()
    paths = [f"{package}/{v.word()}.py" for _ in range(1 if difficulty < 3 else 2)]
    bug = draw(v, family)

    def other() -> Func:
        return draw(v, v.pick([name for name in SHAPES if name != family]))

    bugs = shown = (bug,)
    groups: list[list[Func]]
    if difficulty <= 2:
        groups = [[bug]] if difficulty == 1 else [v.shuffled([bug, other()])]
    elif difficulty == 3:
        groups = v.shuffled([[bug], [other()]])
    elif difficulty == 4:
        groups = v.shuffled([v.shuffled([bug, other()]), [other()]])
    elif v.chance(0.5):  # the fault shows in a caller, in another module
        outer = caller(v, bug, dotted(paths[0]))
        groups, shown = [v.shuffled([bug, other()]), [outer]], (outer,)
    else:
        second = other()
        groups = v.shuffled([[bug], [second]])
        return Project(package, _modules(paths, groups), (bug, second), (bug, second))
    return Project(package, _modules(paths, groups), bugs, shown)


def _modules(paths: list[str], groups: list[list[Func]]) -> tuple[Module, ...]:
    return tuple(Module(p, tuple(g)) for p, g in zip(paths, groups, strict=True))


def dotted(path: str) -> str:
    """`a/b.py` as Python imports it."""
    return path.removesuffix(".py").replace("/", ".")


def _editable(project: Project) -> bool:
    """Each bug's line occurs exactly once in its file, so `edit_file` can name it."""
    files = project.files()
    return all(files[project.home(bug).path].count(bug.edit[0]) == 1 for bug in project.bugs)


def load(files: dict[str, str]) -> Any:
    """An importer over in-memory sources: `load(files)("pkg.mod")` is the executed module."""
    loaded: dict[str, SimpleNamespace] = {}

    def importer(name: str, *_: Any) -> SimpleNamespace:
        if name not in loaded:
            path = f"{name.replace('.', '/')}.py"
            space: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": importer}}
            exec(compile(files[path], path, "exec"), space)
            loaded[name] = SimpleNamespace(**space)
        return loaded[name]

    return importer


def failing(files: dict[str, str], tests: str) -> list[str]:
    """Names of the test functions in `tests` that raise when run against `files`."""
    module = load({**files, "suite.py": tests})("suite")
    failed = []
    for name, test in vars(module).items():
        if name.startswith("test_"):
            try:
                test()
            except Exception:  # whatever a test raises is its failure
                failed.append(name)
    return failed


def _results(project: Project, func: Func) -> tuple[list[Any], list[Any]]:
    """What the function returns for its inputs, clean and buggy."""
    out = []
    for fixed in (True, False):
        function = getattr(load(project.files(fixed))(project.home(func).dotted), func.name)
        out.append([_call(function, args) for args in func.inputs])
    return out[0], out[1]


def _call(function: Any, args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except Exception:  # a buggy function may raise anything
        return RAISED


def _telling(right: list[Any], wrong: list[Any]) -> bool:
    """The bug shows as a wrong value, and no constant would satisfy every input."""
    shows = any(r != w and w is not RAISED for r, w in zip(right, wrong, strict=True))
    return shows and any(r != right[0] for r in right)


Results = dict[str, tuple[list[Any], list[Any]]]  # by function name: clean, buggy


def _task(
    v: Values,
    project: Project,
    results: Results,
    family: str,
    difficulty: int,
    seed: int,
    split: Split,
) -> Task:
    public = _public_tests(v, project, results)
    hidden = _hidden_tests(project, results)
    oracle = oracle_calls(_oracle(v, project, difficulty))
    meta = meta_for(family, difficulty, seed, split, v)
    names = {HIDDEN: _names(hidden), PUBLIC: _names(public)}
    meta["expected_tests"] = [f"{path}::{name}" for path, found in names.items() for name in found]
    files = {**project.files(), PUBLIC: public}
    return Task(
        id=task_id("swe", family, difficulty, seed, split),
        suite="swe",
        instruction=quoted(_issue(v, project, results, difficulty), numbers=False),
        files={path: text.encode() for path, text in files.items()},
        tests={HIDDEN: hidden.encode()},
        oracle=oracle,
        env="swe",
        verifier="hidden_tests",
        limits=limits_for(oracle, context_tokens=1_536),
        meta=meta,
    )


def _check(task: Task, project: Project) -> None:
    hidden = task.tests[HIDDEN].decode()
    public = task.files[PUBLIC].decode()
    clean, buggy = project.files(fixed=True), project.files()
    if failing(clean, hidden) or failing(clean, public) or not failing(buggy, hidden):
        raise TaskError(f"the tests of {task.id} do not tell the bug", where=task.id)


def _names(source: str) -> list[str]:
    return [
        line.removeprefix("def ").split("(")[0]
        for line in source.splitlines()
        if line.startswith("def test_")
    ]


def _test_file(project: Project, tests: list[tuple[str, Func, tuple[Any, ...], Any]]) -> str:
    imports = [f"from {project.home(f).dotted} import {f.name}" for _, f, _, _ in tests]
    bodies = [f"def {n}():\n    assert {_said(f, a)} == {w!r}\n" for n, f, a, w in tests]
    return "\n".join(dict.fromkeys(imports)) + "\n\n\n" + "\n\n".join(bodies)


def _hidden_tests(project: Project, results: Results) -> str:
    return _test_file(
        project,
        [
            (f"test_{f.name}_{i}", f, args, want)
            for module in project.modules
            for f in module.funcs
            for i, (args, want) in enumerate(zip(f.inputs, results[f.name][0], strict=True))
        ],
    )


def _public_tests(v: Values, project: Project, results: Results) -> str:
    """One test a function; whether those of a bug show it is a matter of chance."""
    tests = []
    for func in (f for module in project.modules for f in module.funcs):
        cases = list(zip(func.inputs, *results[func.name], strict=True))
        quiet = [case for case in cases if case[1] == case[2]]
        loud = [case for case in cases if case[1] != case[2]]
        args, want, _ = v.pick(quiet if quiet and (not loud or v.chance(0.4)) else loud)
        tests.append((f"test_{func.name}", func, args, want))
    return _test_file(project, tests)


def _said(func: Func, args: tuple[Any, ...]) -> str:
    return f"{func.name}({', '.join(map(repr, args))})"


def _issue(v: Values, project: Project, results: Results, difficulty: int) -> str:
    slots: dict[str, str] = {"package": project.package}
    for i, func in enumerate(project.shown):
        cases = zip(func.inputs, *results[func.name], strict=True)
        loud = [c for c in cases if c[1] != c[2] and c[2] is not RAISED]
        args, want, got = v.pick(loud)
        end = str(i) if i else ""
        slots |= {f"call{end}": _said(func, args), f"got{end}": repr(got), f"want{end}": repr(want)}
        slots |= {f"name{end}": func.name, f"path{end}": project.home(func).path}
    kind = "two" if len(project.shown) == 2 else {1: "file", 2: "file", 3: "name"}.get(difficulty)
    return v.pick(ISSUES[kind or "symptom"]).format(**slots)


ISSUES = {
    "file": (
        "{call} returns {got} but should return {want}. Fix the bug in {path}.",
        "There is a bug in {path}: {call} gives {got}, expected {want}. Please fix it.",
        "In {path}, {name} is wrong: {call} returned {got} instead of {want}.",
    ),
    "name": (
        "The function {name} in the package {package} does not do what its docstring says. Fix it.",
        "{name} does not behave as its docstring says. Find it in {package} and fix the code.",
        "Somewhere in {package}, {name} is broken: its result is not what its docstring promises.",
    ),
    "symptom": (
        "{call} returned {got}, expected {want}. Fix the code in {package}.",
        "I called {call} and got {got} where {want} is right. Please fix {package}.",
        "Expected {want} from {call} but it gives {got}. Find and fix the cause in {package}.",
    ),
    "two": (
        "{call} returned {got}, expected {want}; and {call1} returned {got1}, expected {want1}. "
        "Fix both in {package}.",
        "Two bugs in {package}: {call} gives {got} instead of {want}, and {call1} gives {got1} "
        "instead of {want1}.",
        "Please fix {package}: {call} should be {want}, not {got}, and {call1} should be "
        "{want1}, not {got1}.",
    ),
}


def _oracle(v: Values, project: Project, difficulty: int) -> list[Call]:
    """Find, read, edit; most of the time the public tests are run before submitting."""
    edits = []
    for bug in project.bugs:
        path = project.home(bug).path
        old, new = bug.edit
        edits += [
            ("read_file", {"path": path}),
            ("edit_file", {"path": path, "old": old, "new": new}),
        ]
    shown = project.shown[0]
    calls: list[Call] = []
    if len(project.shown) == 2:
        calls.append(("search", {"pattern": "def "}))
    elif difficulty >= 3:
        calls.append(("search", {"pattern": v.pick(("def {}", "{}")).format(shown.name)}))
    if shown not in project.bugs:
        calls.append(("read_file", {"path": project.home(shown).path}))
    calls += edits
    if len(calls) < 5 and v.chance(0.7):
        calls.append(("run_tests", {}))
    return calls
