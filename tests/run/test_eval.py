"""`eval` and `bench` as a person types them: any policy, killed and resumed, gated, budgeted."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentrl.cli import main
from agentrl.run.eval_command import metric
from agentrl.run.schema import FIELDS
from agentrl.trajectory.events import EpisodeOpened
from agentrl.trajectory.store import RunStore
from tests.endpoint import Answer, completion, endpoint, refusal

EASY = ["--env", "filesystem", "--env.families", "create", "--env.difficulties", "1"]
SUBMIT = [("submit", "{}")]


def answered(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main([*words, "--json", "--quiet"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def remote(url: str, runs: Path, *more: str) -> list[str]:
    words = ["eval", *EASY, "--eval.tasks", "4", "--base-url", url, "--model", "m"]
    return [*words, "--runs", str(runs), *more]


def test_the_oracle_and_nothing_are_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", *EASY, "--eval.tasks", "3", "--runs", str(tmp_path), "-k", "2"]
    found = answered(capsys, *words, "--policy", "oracle", "--fail-under", "pass^2=1")
    assert found.keys() == FIELDS["eval"].keys() - {"endpoint"}
    assert (found["success"], found["tasks"], found["episodes"]) == (1.0, 3, 6)
    assert found["passes"]["pass^2"]["mean"] == 1.0
    nothing = answered(capsys, *words, "--policy", "nothing", "--fail-under", "0.1", code=1)
    assert (nothing["success"], nothing["digest"]) == (0.0, found["digest"])


def test_an_endpoint_is_a_policy_and_its_keys_are_those_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(lambda asked, n: completion(None, SUBMIT, usage=(9, 3))) as (url, seen):
        found = answered(capsys, *remote(url, tmp_path))
        assert found.keys() == FIELDS["eval"].keys()
        assert found["model"] == f"m at {url}"
        assert (found["success"], found["turns"], found["tokens_sampled"]) == (0.0, 1.0, 12)
        assert len(seen) == 1 + 4  # the probe, and a reply an episode
        assert main(remote(url, tmp_path)) == 0
    told = capsys.readouterr()
    assert "pass@1  0.00" in told.out
    assert "smallest detectable difference" in told.out
    assert "next: agentrl replay" in told.err


def test_an_endpoint_that_refuses_the_key_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(lambda asked, n: refusal(401, "no key")) as (url, _):
        assert main(remote(url, tmp_path)) == 3
    assert "HTTP 401: no key" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["eval", "--base-url", "http://h/v1"], "which model"),
        (["eval", "--base-url", "h:8000", "--model", "m"], "is no endpoint"),
        (["eval", "http://h/v1", "--policy", "oracle"], "two policies are named"),
        (["eval", "--tokenizer", "x"], "concern an endpoint"),
        (["eval", "--suite", "gone"], "no such folder of tasks"),
        (["eval", "--limit", "0"], "leaves nothing to play"),
        (["eval", "--fail-under", "pass@2=x"], "'x' is no number"),
        (["eval", "--fail-under", "pass@2=0.5"], "pass@2 will not be measured"),
        (["bench", "moon"], "no suite is named 'moon'"),
        (["bench", "swe", "--env", "terminal"], "two suites"),
        (["eval", "--policy", "oracle", "--tasks", "zzz"], "no task matches 'zzz'"),
    ],
)
def test_what_cannot_be_is_said_and_starts_nothing(
    words: list[str],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert what in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_gate_is_a_number_or_a_metrics_number() -> None:
    assert metric("") == ("pass@1", None)
    assert metric("0.4") == ("pass@1", 0.4)
    assert metric("pass^4=0.25") == ("pass^4", 0.25)


def test_a_budget_stops_it_and_resume_plays_the_rest_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(lambda asked, n: completion(None, SUBMIT, usage=(9, 3))) as (url, _):
        words = remote(url, tmp_path, "--max-tokens", "6", "-j", "1")
        found = answered(capsys, *words)
        assert (found["state"], found["episodes"], found["unplayed"]) == ("stopped", 2, 2)
        run = found["run"]
        more = ["resume", run, "--runs", str(tmp_path)]
        assert answered(capsys, *more)["unplayed"] == 2  # nothing was spent on a lower budget
        found = answered(capsys, *more, "--max-tokens", "0")
        assert (found["state"], found["episodes"], found["unplayed"]) == ("done", 4, 0)
        assert main(more) == 1
    assert "every task was played" in capsys.readouterr().err
    assert openings(tmp_path / run) == {f"h0.{n}.0": 1 for n in range(4)}


def openings(run: Path) -> Counter[str]:
    events = RunStore(run).events(tokens=False)
    return Counter(event.episode for event in events if isinstance(event, EpisodeOpened))


def test_killed_and_resumed_every_task_counts_exactly_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = threading.Event()

    def manners(asked: dict[str, Any], n: int) -> Answer:
        if n >= 3 and not half.is_set():
            half.set()
            return Answer("{}", after_s=30.0)
        return completion(None, SUBMIT)

    with endpoint(manners) as (url, seen):
        words = [sys.executable, "-m", "agentrl", *remote(url, tmp_path, "-j", "1")]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, env=os.environ)
        assert half.wait(120), process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        (run,) = tmp_path.iterdir()
        before = len(seen)
        found = answered(capsys, "resume", run.name, "--runs", str(tmp_path))
        assert len(seen) - before == 1 + 2  # the probe, and the two that were not finished
    assert (found["state"], found["episodes"], found["tasks"]) == ("done", 4, 4)
    assert openings(run) == {"h0.0.0": 1, "h0.1.0": 1, "h0.2.0": 2, "h0.3.0": 1}


def test_an_endpoint_that_goes_down_ends_it_and_resume_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up = threading.Event()

    def manners(asked: dict[str, Any], n: int) -> Answer:
        down = n >= 3 and not up.is_set()
        return refusal(404, "model m was unloaded") if down else completion(None, SUBMIT)

    with endpoint(manners) as (url, _):
        assert main(remote(url, tmp_path, "-j", "1")) == 4
        assert "HTTP 404: model m was unloaded" in capsys.readouterr().err
        (run,) = tmp_path.iterdir()
        up.set()
        found = answered(capsys, "resume", run.name, "--runs", str(tmp_path))
    assert (found["state"], found["episodes"], found["masked"]) == ("done", 4, 0)


def test_bench_sets_a_policy_between_the_oracle_and_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "filesystem", "--env.families", "create", "--env.difficulties", "1"]
    words += ["--eval.tasks", "3", "--policy", "nothing", "--runs", str(tmp_path)]
    found = answered(capsys, *words)
    assert found.keys() == FIELDS["bench"].keys() - {"endpoint"}
    assert (found["oracle"]["success"], found["nothing"]["success"]) == (1.0, 0.0)
    assert found["broken"] == {}
    assert (found["success"], found["tasks"]) == (0.0, 3)


def test_bench_of_a_folder_names_the_tasks_that_are_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, solve, check in (
        ("good", "echo 1 > x", "test -f /workspace/x"),
        ("free", "true", "true"),
        ("never", "true", "false"),
    ):
        task = tmp_path / "suite" / name
        (task / "tests").mkdir(parents=True)
        (task / "solution").mkdir()
        (task / "task.toml").write_text('schema_version = "1.4"\n')
        (task / "instruction.md").write_text("Make the file x.")
        (task / "solution" / "solve.sh").write_text(solve)
        grade = f"mkdir -p /logs/verifier; {check}; "
        grade += '[ $? = 0 ] && r=1 || r=0; echo "$r" > /logs/verifier/reward.txt'
        (task / "tests" / "test.sh").write_text(grade)
    words = ["bench", str(tmp_path / "suite"), "--policy", "oracle", "--runs", str(tmp_path / "r")]
    found = answered(capsys, *words, code=5)
    assert found["broken"] == {
        "suite/free": "passes untouched",
        "suite/never": "the oracle does not pass",
    }
    assert found["tasks"] == 3
    assert main([*words, "--tasks", "good"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[1:4]] == ["oracle", "oracle", "nothing"]
