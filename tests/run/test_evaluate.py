"""Every task exactly once, whatever breaks; what the host broke counts for nothing but itself."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agentrl.agent.episode import Recipe
from agentrl.engine.base import Policy, Reply
from agentrl.engine.scripted import ScriptedPolicy
from agentrl.envs.terminal import TerminalEnv
from agentrl.errors import EngineError, RunError, SandboxError, TaskError, VerifierError
from agentrl.generate.terminal import TerminalGenerator
from agentrl.memory.full import KeepAll
from agentrl.messages import Message
from agentrl.reward.state import StateVerifier
from agentrl.run.evaluate import Allowance, Evaluation, How, evaluate_tasks
from agentrl.run.measured import read
from agentrl.run.measuring import script
from agentrl.task import Task
from agentrl.tool import ToolSpec
from agentrl.trajectory.events import EpisodeOpened
from agentrl.trajectory.records import Usage
from agentrl.trajectory.store import RunStore
from tests.directory_box import Opener

TASKS = [TerminalGenerator().make("write", 1, seed, "train") for seed in range(4)]


class Breaks:
    """The oracle, but `when(session, asked)` may raise; each reply is 10 tokens long."""

    def __init__(self, when: Callable[[str, int], None] = lambda session, asked: None) -> None:
        self._inner = ScriptedPolicy(script(TASKS))
        self._when = when
        self._asked: dict[str, int] = {}

    async def respond(
        self, context: Sequence[Message], tools: Sequence[ToolSpec], session: str
    ) -> Reply:
        self._asked[session] = self._asked.get(session, 0) + 1
        self._when(session, self._asked[session])
        reply = await self._inner.respond(context, tools, session)
        return replace(reply, usage=Usage(5, 10))

    def count(self, context: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        return 0

    def forget(self, session: str) -> None:
        self._inner.forget(session)


def evaluated(
    folder: Path, policy: Any = None, how: How | None = None, tasks: Sequence[Task] = TASKS,
    **changes: Any,
) -> Evaluation:  # fmt: skip
    policy = policy or Breaks()

    async def story(store: RunStore) -> Evaluation:
        recipe = Recipe(
            open_sandbox=Opener(),
            envs={"terminal": TerminalEnv},
            verifiers={"state": StateVerifier()},
            policy=policy,
            new_memory=KeepAll,
            boxes=asyncio.Semaphore(4),
            played=policy.forget,
        )
        return await evaluate_tasks(tasks, replace(recipe, **changes), store, 0, how)

    with RunStore(folder) as store:
        return asyncio.run(story(store))


def openings(folder: Path) -> list[str]:
    events = RunStore(folder).events(tokens=False)
    return [event.episode for event in events if isinstance(event, EpisodeOpened)]


def always(error: Exception) -> Policy:
    def when(session: str, asked: int) -> None:
        raise error

    return Breaks(when)


def test_tries_turns_and_tokens_are_summed_and_read_back(tmp_path: Path) -> None:
    found = evaluated(tmp_path, how=How(tries=3, at_once=2))
    assert (found.success.mean, found.success.n, found.episodes) == (1.0, 4, 12)
    assert list(found.passes) == ["pass@1", "pass@2", "pass^2", "pass@3", "pass^3"]
    assert found.tokens == 10 * found.replies > 0
    assert found.stops == {"done": 12}
    tasks = read(tmp_path, 0)
    assert [len(one.tries) for one in tasks.values()] == [3] * 4
    assert sum(t.tokens for one in tasks.values() for t in one.tries.values()) == found.tokens
    assert sum(t.turns for one in tasks.values() for t in one.tries.values()) == found.replies


@pytest.mark.parametrize(
    ("error", "openings_each"), [(EngineError("gone"), 3), (SandboxError("no room"), 3)]
)
def test_a_passing_fault_is_played_again_and_then_counts(
    tmp_path: Path, error: Exception, openings_each: int
) -> None:
    left = {"h0.1.0": openings_each - 1}

    def when(session: str, asked: int) -> None:
        if left.get(session, 0):
            left[session] -= 1
            raise error

    found = evaluated(tmp_path, Breaks(when))
    assert (found.success.mean, found.masked, found.faults) == (1.0, 0, {})
    assert openings(tmp_path).count("h0.1.0") == openings_each
    assert len(openings(tmp_path)) == openings_each + 3


def test_a_lasting_fault_is_left_out_and_named(tmp_path: Path) -> None:
    class Broken:
        async def verify(self, task: Task, trajectory: Any, sandbox: Any) -> Any:
            raise VerifierError("no such file") if task is TASKS[0] else TaskError("bad")

    found = evaluated(tmp_path, verifiers={"state": Broken()})
    assert found.faults == {"VerifierError": 1, "TaskError": 3}
    assert (found.masked, found.success.n) == (4, 0)
    assert openings(tmp_path).count("h0.0.0") == 2
    assert openings(tmp_path).count("h0.1.0") == 1


def test_a_policy_that_never_answers_ends_the_evaluation_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunError) as found:
        evaluated(tmp_path, always(EngineError("connection refused")), tasks=TASKS * 4)
    assert "episodes in a row got no reply" in found.value.what
    assert "connection refused" in found.value.what
    assert "resume" in found.value.help


def test_what_was_finished_is_not_played_again(tmp_path: Path) -> None:
    evaluated(tmp_path, how=How(tries=2, allowance=Allowance(tokens=1), at_once=1))
    first = openings(tmp_path)
    assert len(first) == 1  # begun before anything was spent
    with RunStore(tmp_path) as store:
        done = store.trajectories()
    found = evaluated(tmp_path, how=How(tries=2, done=done))
    assert sorted(openings(tmp_path)) == sorted(f"h0.{n}.{go}" for n in range(4) for go in (0, 1))
    assert (found.episodes, found.unplayed, found.success.mean) == (8, 0, 1.0)


def test_a_budget_stops_beginning_and_says_what_is_unplayed(tmp_path: Path) -> None:
    found = evaluated(tmp_path, how=How(tries=2, at_once=1, allowance=Allowance(seconds=1e-9)))
    assert (found.episodes, found.unplayed) == (0, 8)
    assert found.results == {}
    assert found.success.n == 0


@pytest.mark.parametrize(("lost", "masked"), [(0.0, 0), (0.9, 1)])
def test_a_time_out_spent_waiting_for_the_endpoint_is_the_hosts(
    tmp_path: Path, lost: float, masked: int
) -> None:
    class Hangs(Breaks):
        async def respond(
            self, context: Sequence[Message], tools: Sequence[ToolSpec], session: str
        ) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError("the episode's clock did not end it")

    task = replace(TASKS[0], limits=replace(TASKS[0].limits, episode_s=0.2))
    found = evaluated(tmp_path, Hangs(), How(lost=lambda e: lost), [task])
    assert found.masked == masked
    assert found.stops == ({} if masked else {"time": 1})
    assert found.faults == ({"EngineError": 1} if masked else {})


def test_in_lock_step_waves_are_whole_and_every_task_is_played_once(tmp_path: Path) -> None:
    class Counts:
        expected: list[int]

        def __init__(self) -> None:
            self.expected = []

        def flush(self) -> None:
            self.expected.append(0)

        def expect(self, count: int) -> None:
            self.expected[-1] = count

    engine: Any = Counts()
    found = evaluated(tmp_path, how=How(tries=2, lockstep=(engine, 3)))
    assert engine.expected == [3, 3, 2]
    assert (found.episodes, len(set(openings(tmp_path)))) == (8, 8)
