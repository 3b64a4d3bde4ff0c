"""A stored run is credited anew; what differs is shown step by step."""

import json
from pathlib import Path

import pytest

from agentrl.cli import main
from agentrl.config import load
from agentrl.messages import Message, ToolCall
from agentrl.run.credit_command import correlation
from agentrl.run.runs import create_run
from agentrl.run.schema import FIELDS
from agentrl.task import Task
from agentrl.trajectory.events import (
    ContextSet,
    Credited,
    EpisodeOpened,
    EpisodeStopped,
    Observed,
    Replied,
    Verified,
)
from agentrl.trajectory.records import scored
from agentrl.trajectory.store import RunStore


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One group: both tries begin alike, then part; and one held-out task played once."""
    folder = create_run(load("terminal"), ["agentrl", "train"], tmp_path)
    with RunStore(folder) as store:
        play(store, "g0.0", 1.0, ["a", "b"], credited=0.5)
        play(store, "g0.1", 0.0, ["a", "c"], credited=-0.5)
        play(store, "g0.2", None, ["a"])
        play(store, "held.0", 1.0, ["a"], split="held_out")
    return tmp_path


def play(
    store: RunStore, episode: str, reward: float | None, saw: list[str], *,
    credited: float | None = None, split: str = "train",
) -> None:  # fmt: skip
    task = Task("terminal/x", "terminal", "go", meta={"split": split})
    store.append(EpisodeOpened(episode=episode, group=episode.partition(".")[0], task=task))
    store.append(ContextSet(episode=episode, by="env", context=(Message("user", "go"),)))
    for n, text in enumerate(saw):
        call = ToolCall("1", "shell", {"command": f"look {n}\x1b[31m"})
        store.append(Replied(episode=episode, by="agent", reply=Message("assistant", "", (call,))))
        store.append(Observed(episode=episode, seen=(Message("tool", text, call_id="1"),)))
    if reward is not None:
        store.append(EpisodeStopped(episode=episode, why="done"))
        store.append(Verified(episode=episode, verdict=scored(reward), reward=reward))
    if credited is not None:
        store.append(
            Credited(episode=episode, by="OutcomeCredit", advantages=(credited,) * len(saw))
        )


def told(runs: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["credit", *words, "--runs", str(runs), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_two_schemes_are_compared_step_by_step(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "anchor {discount = 1.0}"
    found = told(runs, capsys, "@latest", "--as", options, "--compare", "outcome {std = 'none'}")
    assert (found["groups"], found["steps"], found["differ"], found["other_sign"]) == (1, 4, 4, 0)
    steps = found["episodes"][0]["steps"]
    assert [(s["as"], s["compare"], s["difference"]) for s in steps] == [(1.0, 0.5, 0.5)] * 2
    assert steps[0]["did"] == "shell look 0 [31m"
    assert found["as"]["report"]["singleton_frac"] == 0.0
    assert set(found) == set(FIELDS["credit"])
    assert set(found["episodes"][0]) == set(FIELDS["credit"]["episodes"])


def test_what_was_recorded_is_a_scheme_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(runs, capsys, "--as", "outcome {kind = 'dr_grpo'}")
    assert (found["compare"]["name"], found["differ"], found["correlation"]) == ("recorded", 0, 1.0)
    assert [e["id"] for e in found["episodes"]] == ["g0.0", "g0.1"]


def test_a_person_sees_where_they_part(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["credit", "--as", "tree", "--compare", "anchor", "--runs", str(runs)]) == 0
    out = capsys.readouterr().out
    assert "tree against anchor" in out
    assert "4 of 4 steps differ, 0 in sign" in out
    assert "  step       tree     anchor difference" in out
    assert "     1     +0.500     +1.000     -0.500   shell look 1" in out
    assert "\x1b" not in out


def test_one_episode_or_a_held_out_one_may_be_asked_for(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = told(runs, capsys, "@latest:g0.1", "--compare", "outcome")
    assert [e["id"] for e in one["episodes"]] == ["g0.1"]
    held = told(runs, capsys, "@latest:held", "--compare", "outcome")
    assert held["correlation"] is None
    assert held["differ"] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--as", "anchr"], "did you mean 'anchor'"),
        (["--as", "anchor {discount = }"], "not TOML"),
        (["--as", "anchor {discuont = 1.0}"], "does not take `discuont`"),
        (["--as", "anchor {discount = 2.0}"], "not between 0 and 1"),
        (["--as", "turns", "--compare", "outcome"], "needs a critic's values"),
        (["@latest:g7"], "no episode or group is called 'g7'"),
        (["@latest:held"], "no judged episode was credited"),
    ],
)
def test_what_cannot_be_compared_is_said(
    runs: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["credit", *words, "--runs", str(runs)]) == 2
    assert says in capsys.readouterr().err


def test_correlation_is_pearsons() -> None:
    assert correlation([(1, 2), (2, 4), (3, 6)]) == pytest.approx(1.0)
    assert correlation([(1, -1), (2, -2), (3, -4)]) == pytest.approx(-0.9820, abs=1e-4)
    assert correlation([(1, 0), (2, 0)]) is None
