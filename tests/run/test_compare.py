"""Two measurements are compared task by task, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentrl.cli import main
from agentrl.run.runs import create_run
from agentrl.run.schema import FIELDS
from tests.run.measurements import Scores, evaluation, load, training

LOW: Scores = [[0.0], [0.0], [1.0], [1.0]] * 6
HIGH: Scores = [[1.0], [0.0], [1.0], [1.0]] * 6


def compared(
    capsys: pytest.CaptureFixture[str], runs: Path, *words: str, code: int = 0
) -> dict[str, Any]:
    assert main(["compare", *words, "--runs", str(runs), "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], runs: Path, *words: str) -> str:
    assert main(["compare", *words, "--runs", str(runs)]) == 2
    return capsys.readouterr().err


def test_the_difference_is_paired_and_its_power_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = evaluation(tmp_path, LOW, turns=2), evaluation(tmp_path, HIGH, turns=3)
    found = compared(capsys, tmp_path, a, b)
    assert found.keys() == FIELDS["compare"].keys()
    (one,) = found["comparisons"]
    success, turns, tokens = one["metrics"]
    fields = FIELDS["compare"]["comparisons"]["metrics"]  # type: ignore[index]
    assert success.keys() == fields.keys()
    assert turns.keys() == fields.keys() - {"p_holm"}
    assert (success["a"], success["b"], success["difference"]) == (0.5, 0.75, 0.25)
    assert (success["wins"], success["ties"], success["losses"]) == (6, 18, 0)
    assert success["test"] == "exact McNemar"
    assert success["p"] == pytest.approx(2 / 64)
    assert 0.1 < success["smallest_difference"] < 0.4
    assert success["decisive"]
    assert (turns["difference"], tokens["difference"]) == (1.0, 7.0)
    assert one["fixed"] == [f"t/family{n % 3}/{n}" for n in range(0, 24, 4)]
    assert one["broke"] == []
    assert [side["policy"] for side in found["sides"]] == ["nothing", "nothing"]


def test_for_a_person_it_is_a_table_with_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = evaluation(tmp_path, LOW), evaluation(tmp_path, HIGH)
    assert main(["compare", a, b, "--runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "6/18/0" in out
    assert "smallest" in out
    assert f"{b} solves more of these tasks than {a}: decisive." in out
    few = [evaluation(tmp_path, scores) for scores in (LOW[:8], HIGH[:8])]
    assert main(["compare", *few, "--runs", str(tmp_path)]) == 0
    assert "not decisive. These tasks can show differences of 0." in capsys.readouterr().out


def test_a_regression_fails_only_where_it_is_decisive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = evaluation(tmp_path, LOW), evaluation(tmp_path, HIGH)
    compared(capsys, tmp_path, b, a, "--fail-on", "regress", code=1)
    compared(capsys, tmp_path, a, b, "--fail-on", "regress", code=0)
    compared(capsys, tmp_path, a, b, "--fail-on", "any", code=1)
    compared(capsys, tmp_path, b, a, "--fail-on", "regress", "--alpha", "0.01", code=0)


def test_several_tries_add_pass_at_k_and_masked_tries_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = evaluation(tmp_path, [[0.0, 1.0, None], [0.25, 0.0, 0.0], [None, None, None]] * 4)
    b = evaluation(tmp_path, [[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]] * 4)
    found = compared(capsys, tmp_path, a, b)
    (one,) = found["comparisons"]
    named = {row["metric"]: row for row in one["metrics"]}
    assert list(named) == ["success", "pass@2", "pass^2", "turns", "tokens"]
    assert found["tasks"] == 8  # the third of each was never judged by A
    assert (named["success"]["a"], named["success"]["b"]) == (0.25, pytest.approx(2 / 3))
    assert named["pass^2"]["a"] == 0.0
    assert named["pass@2"]["b"] == pytest.approx((1.0 + 2 / 3) / 2)
    assert (found["sides"][0]["masked"], found["sides"][0]["timeouts"]) == (16, 4)


def test_other_tasks_are_refused_by_their_content_not_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, more = evaluation(tmp_path, LOW), evaluation(tmp_path, [*LOW, [1.0]])
    other = evaluation(tmp_path, LOW, say="count the lines")
    told = refused(capsys, tmp_path, a, more)
    assert "not the same tasks: 24 and 25, 24 in common" in told
    assert "--common" in told
    told = refused(capsys, tmp_path, a, other)
    assert "0 in common, 24 have the same name but other contents" in told
    assert "no task that all of them played" in refused(capsys, tmp_path, a, other, "--common")
    assert compared(capsys, tmp_path, a, more, "--common")["tasks"] == 24


def test_a_training_runs_passes_are_compared_by_their_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = training(tmp_path, {0: LOW, 4: HIGH}).name
    found = compared(capsys, tmp_path, f"{run}@0", run)
    assert [side["name"] for side in found["sides"]] == [f"{run}@0", f"{run}@4"]
    assert found["comparisons"][0]["metrics"][0]["difference"] == 0.25
    assert "steps it was measured at: 0, 4" in refused(capsys, tmp_path, run, f"{run}@3")


def test_what_was_never_measured_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = evaluation(tmp_path, LOW)
    bare = create_run(load("terminal"), ["agentrl"], tmp_path).name
    assert "has no finished measurement" in refused(capsys, tmp_path, a, bare)
    assert "name two measurements" in refused(capsys, tmp_path, a)
    broken = evaluation(tmp_path, [[None]] * 24)
    assert "the host broke them all" in refused(capsys, tmp_path, a, broken)


def test_three_sides_are_corrected_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [evaluation(tmp_path, scores) for scores in (LOW, HIGH, HIGH)]
    found = compared(capsys, tmp_path, *runs)
    for one in found["comparisons"]:
        success = one["metrics"][0]
        assert success["p_holm"] == pytest.approx(2 * success["p"])
        assert not success["decisive"]
