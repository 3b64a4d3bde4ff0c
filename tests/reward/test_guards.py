"""What is put back, taken out and flagged, decided on the host from what was left."""

import pytest

from agentrl.envs.sandbox import Harvest
from agentrl.messages import ToolCall
from agentrl.reward.guards import examine, inert, selection
from agentrl.task import Task

OWN = {"calc.py": b"x = 1\n", "conftest.py": b"import pytest\n", "sub/tox.ini": b"[tox]\n"}
TASK = Task("t/1", "t", "Mend calc.", files=OWN)


def left(*skipped: str, outside: tuple[str, ...] = (), alive: tuple[str, ...] = (), **more: bytes):
    files = {path: (0o644, data) for path, data in {**OWN, **more}.items()}
    return Harvest(dict(files), skipped, outside, alive)


@pytest.mark.parametrize(
    ("path", "data", "flag"),
    [
        ("deep/conftest.py", b"def pytest_runtest_setup(item): pass", "RUNNER_HOOK"),
        ("usercustomize.py", b"import evil", "RUNNER_HOOK"),
        ("lib/a.pth", b"import evil", "RUNNER_HOOK"),
        ("calc-1.egg-info/entry_points.txt", b"[pytest11]\na = b", "RUNNER_HOOK"),
        (".git/hooks/post-checkout", b"#!/bin/sh\nevil", "RUNNER_HOOK"),
        ("tox.ini", b"[pytest]\naddopts = -k none", "TEST_CONFIG"),
        ("setup.cfg", b"[tool:pytest]\ntestpaths = elsewhere", "TEST_CONFIG"),
        ("pyproject.toml", b"[tool.pytest.ini_options]\naddopts = '--co'", "TEST_CONFIG"),
        ("pytest.ini", b"\xff not text", "TEST_CONFIG"),
        ("pytest/__init__.py", b"raise SystemExit(0)", "SHADOW_MODULE"),
        ("random.py", b"def seed(): return evil()\nseed()", "SHADOW_MODULE"),
        ("setup.py", b"from setuptools import setup\nsetup(cmdclass={})", "SUPPLY"),
    ],
)
def test_what_would_run_in_the_judges_place_is_taken_out_and_flagged(
    path: str, data: bytes, flag: str
) -> None:
    kept, found = examine(TASK, left(**{path: data}), runs=True)
    assert path not in kept.files
    assert list(found) == [flag]
    assert path in found[flag]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("pyproject.toml", b"[project]\nname = 'calc'\n"),
        ("setup.py", b"from setuptools import setup\nsetup(name='calc', version='1')\n"),
        ("pkg/json.py", b"raise SystemExit(0)"),
        ("email/letter.txt", b"hello"),
        ("bin/deploy", b"#!/bin/sh\n"),
        ("notes.md", b"never write to /logs/verifier or read /tests/x"),
        (".git/hooks/pre-push.sample", b"#!/bin/sh\n"),
    ],
)
def test_ordinary_files_stay_and_are_not_flagged(path: str, data: bytes) -> None:
    kept, found = examine(TASK, left(**{path: data}), runs=True)
    assert kept.files[path] == (0o644, data)
    assert found == {}


def test_the_tasks_own_hooks_are_put_back_by_content() -> None:
    harvest = Harvest({"conftest.py": (0o600, b"def pytest_configure(): evil()")})
    kept, found = examine(TASK, harvest, runs=True)
    assert kept.files["conftest.py"] == (0o600, OWN["conftest.py"])
    assert kept.files["sub/tox.ini"] == (0o644, OWN["sub/tox.ini"])
    assert kept.files["sub"] == (0o755, None)
    assert list(found) == ["RUNNER_HOOK"]


def test_a_file_the_task_speaks_of_is_the_tasks_business() -> None:
    spoken = Task("t/1", "t", "Write random.py.", files=OWN)
    oracle = ToolCall("c", "shell", {"command": "echo >random.py"})
    known = Task("t/1", "t", "Write it.", files=OWN, oracle=(oracle,))
    for task in (spoken, known):
        kept, found = examine(task, left(**{"random.py": b"print(4)"}), runs=True)
        assert "random.py" in kept.files
        assert found == {}


def test_where_nothing_is_run_the_workdir_is_judged_as_it_is() -> None:
    harvest = left(**{"conftest.py": b"evil()", "random.py": b"evil()", "a.pyc": b"x"})
    kept, found = examine(TASK, harvest, runs=False)
    assert (kept.files, found) == (harvest.files, {})


def test_only_declared_artifacts_are_carried_over() -> None:
    task = Task("t/1", "t", "x", files=OWN, meta={"artifacts": ["out", "sub/tox.ini"]})
    harvest = left(**{"calc.py": b"evil", "out/a": b"1", "outer": b"2", "sub/tox.ini": b"[tox]\n#"})
    kept, _ = examine(task, harvest, runs=True)
    files = {path: data for path, (_, data) in kept.files.items() if data is not None}
    assert files == {**OWN, "out/a": b"1", "sub/tox.ini": b"[tox]\n#"}


@pytest.mark.parametrize(
    ("skipped", "flagged"),
    [
        ("a (link to /tests/want)", True),
        ("d/a (link to ../../etc/shadow)", True),
        ("a (link to /proc/self/environ)", True),
        ("a (link to b)", False),
        ("d/a (link to ../b)", False),
        ("a (link to /workspace/b)", False),
        ("venv/bin/python (link to /usr/bin/python3)", False),
        ("big (too large)", False),
    ],
)
def test_a_link_that_leads_out_is_flagged(skipped: str, flagged: bool) -> None:
    assert ("PATH_ESCAPE" in examine(TASK, left(skipped), runs=False)[1]) is flagged


@pytest.mark.parametrize(
    ("path", "flag"),
    [
        ("/logs/verifier/reward.json", "REWARD_FILE"),
        ("/tests/test.sh", "VERIFIER_TAMPER"),
        ("/root/.bashrc", "SHELL_INIT"),
        ("/etc/profile.d/a.sh", "SHELL_INIT"),
        ("/etc/ld.so.preload", "BIN_HIJACK"),
        ("/opt/bin/git", "BIN_HIJACK"),
        ("/etc/hosts", "MOUNT_NET"),
        ("/logs/agent/notes", None),
        ("/root/.cache/x", None),
    ],
)
def test_what_was_written_beside_the_workdir_is_evidence(path: str, flag: str | None) -> None:
    found = examine(TASK, left(outside=(path,)), runs=False)[1]
    assert found == ({flag: f"{path} was written"} if flag else {})


def test_a_process_is_late_only_if_it_reaches_for_the_verdict() -> None:
    assert examine(TASK, left(alive=("sleep 50",)), runs=False)[1] == {}
    reaching = examine(TASK, left(alive=("sleep 50", "sh -c echo 1 >/logs/verifier/x")), runs=False)
    assert reaching[1] == {"LATE_PROCESS": "still running: sh -c echo 1 >/logs/verifier/x"}


def test_importing_inert_source_runs_nothing() -> None:
    assert inert(b'"""Doc."""\nimport json\nX = 1\ndef f(): evil()\n', b"")
    assert not inert(b"X = evil()", b"")
    assert not inert(b"@evil\ndef f(): pass", b"")
    assert not inert(b"from . import evil", b"")
    assert inert(b"import evil\nX = 2", b"import evil\n")


def test_selection_sees_what_chooses_tests_and_nothing_else() -> None:
    assert selection("pytest.ini", b"[pytest]\nmarkers = a\naddopts = -x") == {"addopts": "-x"}
    assert selection("setup.cfg", b"[metadata]\nname = a") == {}
    assert "unreadable" in selection("pyproject.toml", b"[tool")
