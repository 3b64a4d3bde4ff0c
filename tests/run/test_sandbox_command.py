"""`agentrl sandbox`: what it prints, what it returns, and on whose plug-ins it works."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrl.cli import main
from agentrl.run.schema import FIELDS

STRANGER = """
from contextlib import asynccontextmanager
from agentrl.envs.sandboxes.unsafe import Unsafe

class Stranger:
    '''An opener with nothing but the one method that is asked for.'''

    def __init__(self):
        self._inner = Unsafe()

    @asynccontextmanager
    async def __call__(self, task, snapshot=None, *, extra=None, harvest=None):
        async with self._inner(task, snapshot, extra=extra, harvest=harvest) as box:
            yield Three(box)

class Three:
    '''A box with the three verbs and no more; it forgets how commands ended.'''

    def __init__(self, box):
        self._box = box
        self.read, self.write = box.read, box.write

    async def exec(self, argv, timeout_s=60.0):
        from msgspec.structs import replace
        return replace(await self._box.exec(argv, timeout_s), code=0)
"""


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Somebody's package, installed as any is: a module and its entry points."""
    (tmp_path / "strange_boxes.py").write_text(STRANGER)
    info = tmp_path / "strange_boxes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-boxes\nVersion: 1.0\n")
    points = "[agentrl.sandboxes]\nstrange = strange_boxes:Stranger\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "strange"


def test_exec_passes_a_commands_bytes_on_and_tells_its_end(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    script = "printf '\\377\\n'; echo oops >&2; exit 7"
    assert main(["sandbox", "exec", "--", "sh", "-c", script]) == 1
    told = capfdbinary.readouterr()
    assert told.out == b"\xff\n"
    assert told.err == b"oops\n(exit code 7)\n"
    assert main(["sandbox", "exec", "-q", "--", "true"]) == 0
    assert capfdbinary.readouterr() == (b"", b"")


def test_exec_as_json_has_the_fields_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sandbox", "exec", "--json", "--timeout", "0.2", "--", "sh", "-c", "echo A; sleep 9"]
    assert main(words) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == FIELDS["sandbox exec"].keys()
    assert (answer["code"], answer["out"], answer["timed_out"]) == (None, "A\n", "total")


def test_exec_in_a_tasks_box_has_its_files(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", "--env", "filesystem", "--difficulty", "1", "--json"]) == 0
    number = json.loads(capfd.readouterr().out)["tasks"][0]["id"]
    assert main(["tasks", "show", number, "--json"]) == 0
    files = json.loads(capfd.readouterr().out)["files"]
    assert main(["sandbox", "exec", "--task", number, "--", "find", ".", "-type", "f"]) == 0
    assert {f"./{name}" for name in files} == {*capfd.readouterr().out.split()}


def test_the_commands_own_flags_are_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "exec", "--", "echo", "--help", "--json", "--backend"]) == 0
    assert capfd.readouterr().out == "--help --json --backend\n"


def test_a_script_on_stdin_is_run_by_one_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("cd /tmp\ncat <<E\n$PWD\nE\n"))
    assert main(["sandbox", "shell", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["commands"]
    assert done.keys() == FIELDS["sandbox exec"].keys()
    assert (done["code"], done["out"]) == (0, "/tmp\n")


def test_gc_removes_what_a_dead_harness_left_and_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left = Path(f"/dev/shm/agentrl-{gone.pid}-0")
    kept = [Path(f"/dev/shm/agentrl-{os.getpid()}-987654"), Path(f"/dev/shm/other-{gone.pid}-0")]
    for path in (left, *kept):
        path.mkdir()
    try:
        assert main(["sandbox", "gc", "--backend", "unsafe", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer.keys() == FIELDS["sandbox gc"].keys()
        assert str(left) in answer["removed"]
        assert not left.exists()
        assert all(path.exists() for path in kept)
    finally:
        for path in kept:
            path.rmdir()


def test_conformance_tells_promise_by_promise(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sandbox", "conformance", "--only", "*opens for writing"]
    assert main(words) == 0
    told = capsys.readouterr()
    assert told.out.startswith("✓ nothing of the host opens for writing")
    assert told.err == "bubblewrap: 1 promises kept, 0 broken, 0 not made\n"
    assert main([*words, "--backend", "unsafe"]) == 0
    assert capsys.readouterr().out.startswith("– nothing of the host opens for writing")


def test_conformance_runs_on_a_strangers_plug_in(
    stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sandbox", "conformance", "--backend", stranger, "--json", "--only"]
    assert main([*words, "bytes that are not UTF-8"]) == 0
    assert main([*words, "cannot start"]) == 1
    kept, broken = map(json.loads, capsys.readouterr().out.splitlines())
    assert kept.keys() == FIELDS["sandbox conformance"].keys()
    assert (kept["kept"], kept["broken"], broken["kept"], broken["broken"]) == (1, 0, 0, 1)
    (check,) = broken["checks"]
    assert check.keys() == FIELDS["sandbox conformance"]["checks"].keys()  # type: ignore[attr-defined]
    assert check["reason"] == "a program that is not there: expected 127, got 0"
    assert main([*words, "the shell remembers"]) == 0
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert (check["state"], check["reason"]) == ("unenforced", "its boxes have no shell")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["exec"], "no command is given"),
        (["shell", "--", "ls"], "takes no command"),
        (["conformance", "--only", "no such check"], "no check is called"),
        (["exec", "--backend", "dokcer", "--", "ls"], "no sandboxes plug-in"),
        (["exec", "--image", "debian:12", "--", "ls"], "wants an image"),
    ],
)
def test_a_mistake_is_answered(
    words: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", *words]) == 2
    told = capsys.readouterr().err
    assert what in told
    assert "= help: " in told


def test_a_backend_that_keeps_nothing_cannot_collect(
    stranger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sandbox", "gc", "--backend", stranger]) == 2
    assert "cannot collect" in capsys.readouterr().err
