import pytest

from agentrl.errors import ConfigError
from agentrl.generate.ledger import digest
from agentrl.generate.terminal import TerminalGenerator
from tests.generate.shape import check_shape
from tests.generate.worlds import every, length, play_shell, reached

GENERATOR = TerminalGenerator()


def test_every_family_and_difficulty_builds_within_its_limits():
    for task in every(GENERATOR, seeds=20):
        check_shape(task, "terminal", 1_024)
        assert {call.name for call in task.oracle} == {"shell", "submit"}
        assert not reached(task, task.files), f"{task.id}: doing nothing passes"


def test_tasks_are_the_same_bytes_on_every_machine():
    assert GENERATOR.make("count", 3, 5, "train") == GENERATOR.make("count", 3, 5, "train")
    assert digest(every(GENERATOR, seeds=2)) == PINNED


PINNED = "7881fa7482b785facd4ca6e62d69e2d7"


def test_the_oracle_reaches_the_expected_state_in_a_real_shell(tmp_path):
    for i, task in enumerate(every(GENERATOR, seeds=3)):
        files, seen = play_shell(task, task.oracle, tmp_path / str(i))
        assert reached(task, files), f"{task.id}: {[c.arguments for c in task.oracle]} -> {files}"
        assert length(task, seen) <= 1_200, task.id


def test_stopping_before_the_last_command_does_not_pass(tmp_path):
    for i, task in enumerate(every(GENERATOR, seeds=1)):
        if len(task.oracle) > 2:
            files, _ = play_shell(task, task.oracle[:-2], tmp_path / str(i))
            assert not reached(task, files), task.id


def test_a_stray_file_or_a_touched_neighbour_does_not_pass(tmp_path):
    task = GENERATOR.make("log_triage", 3, 1, "train")
    files, _ = play_shell(task, task.oracle, tmp_path)
    assert reached(task, files)
    assert not reached(task, {**files, "extra.txt": b"1\n"})
    log = next(path for path in files if path.endswith(".log"))
    assert not reached(task, {**files, log: files[log] + b"\n"})


def test_archives_are_real_and_small():
    task = GENERATOR.make("archive", 5, 0, "train")
    assert all(1_024 < len(data) <= 4_096 for data in task.files.values())


def test_an_unknown_family_is_named():
    with pytest.raises(ConfigError, match="no family 'nope'"):
        GENERATOR.make("nope", 1, 0, "train")
    with pytest.raises(ConfigError, match="difficulty 6"):
        GENERATOR.make("count", 6, 0, "train")
