"""A box over a dict stands in for a sandbox; the env, its tools and the judging are carried out."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest

from agentrl.envs.base import ToolEnv
from agentrl.envs.sandbox import ExecResult, Harvest
from agentrl.errors import TaskError
from agentrl.generate.admission import admit
from agentrl.generate.filesystem import FilesystemGenerator
from agentrl.messages import Message, ToolCall
from agentrl.task import Task
from agentrl.tool import ToolOutput, ToolSpec
from agentrl.trajectory.records import masked, scored
from tests.generate.worlds import play_files, reached

TASK = FilesystemGenerator().make("copy_value", 3, 0, "train")


class DictBox:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.files = dict(task.files)

    async def exec(self, argv, timeout_s=60.0):
        return ExecResult(127)

    async def read(self, path):
        return self.files[path]

    async def write(self, path, data):
        self.files[path] = data

    async def harvest(self):
        return Harvest({path: (0o644, data) for path, data in self.files.items()})


class DictTool:
    def __init__(self, spec: ToolSpec, box: DictBox) -> None:
        self.spec, self.box = spec, box

    async def __call__(self, arguments):
        here = msgspec.structs.replace(self.box.task, files=self.box.files)
        call = ToolCall("c", self.spec.name, dict(arguments))
        self.box.files, seen = play_files(here, [call])
        return ToolOutput(seen[0], done=self.spec.name == "submit")


TOOLS = {"read_file": ("path",), "write_file": ("path", "content"), "submit": ()}


def build_env(task, sandbox, extra=()):
    specs = [ToolSpec(name, name, {key: {} for key in keys}) for name, keys in TOOLS.items()]
    return ToolEnv([Message("user", task.instruction)], [DictTool(s, sandbox) for s in specs])


@asynccontextmanager
async def open_box(task, snapshot=None, *, extra=None, harvest=None):
    yield DictBox(task)


class NoVerifier:
    async def verify(self, task, trajectory, sandbox):
        raise AssertionError("the judge below needs no box")


async def judge(task, trajectory, open_sandbox, harvest, verifier):
    assert trajectory.stop == "done"
    files = {path: data for path, (_, data) in harvest.files.items()}
    return scored(float(reached(task, files)))


def admission(task: Task, judged=judge, opened=open_box):
    return asyncio.run(admit(task, opened, build_env, NoVerifier(), judged, repeats=2))


def test_a_sound_task_is_admitted():
    result = admission(TASK)
    assert result.admitted, result.reasons
    assert [v.score for v in result.oracle] == [1.0, 1.0]
    assert [v.score for v in result.nothing] == [0.0, 0.0]


def test_a_task_solved_by_doing_nothing_is_not():
    empty = b'{"files": {}, "absent": [], "exact_tree": false, "allow": ["%s"]}'
    allow = '", "'.join([*TASK.files, *(c.arguments.get("path", "") for c in TASK.oracle)])
    easy = msgspec.structs.replace(TASK, tests={"expected.json": empty % allow.encode()})
    assert reasons(easy) == {"doing nothing passes"}


def test_an_oracle_that_does_not_solve_its_task_is_reported():
    lazy = msgspec.structs.replace(TASK, oracle=TASK.oracle[-1:])
    assert reasons(lazy) == {"the oracle did not pass: reward 0"}


def test_an_oracle_call_no_tool_can_carry_out_is_reported():
    odd = ToolCall("c9.0", "fly", {})
    broken = msgspec.structs.replace(TASK, oracle=(odd, *TASK.oracle))
    assert reasons(broken) == {"oracle call 0 (fly) is malformed"}


def test_calls_after_the_end_of_the_episode_are_reported():
    late = msgspec.structs.replace(TASK, oracle=(*TASK.oracle, ToolCall("c9.0", "submit", {})))
    assert reasons(late) == {f"the episode ended at oracle call {len(TASK.oracle) - 1}"}


def test_a_task_without_an_oracle_is_reported():
    assert reasons(msgspec.structs.replace(TASK, oracle=())) == {"the task has no oracle"}


def test_an_unjudged_try_admits_nothing():
    async def host_broke(*_):
        return masked("disk full")

    found = set(admission(TASK, host_broke).reasons)
    assert found == {
        "the oracle did not pass: masked: disk full",
        "doing nothing was not judged: masked: disk full",
    }


def test_a_box_that_cannot_be_harvested_is_refused():
    class Plain(DictBox):
        harvest = property()

    @asynccontextmanager
    async def open_plain(task, snapshot=None, *, extra=None, harvest=None):
        yield Plain(task)

    with pytest.raises(TaskError, match="cannot hand over"):
        admission(TASK, opened=open_plain)


def reasons(task: Task) -> set[str]:
    return set(admission(task).reasons)
