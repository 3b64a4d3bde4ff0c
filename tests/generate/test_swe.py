import pytest

from agentrl.errors import ConfigError
from agentrl.generate.ledger import digest
from agentrl.generate.swe import HIDDEN, PUBLIC, SweGenerator, failing
from agentrl.task import Task
from tests.generate.shape import check_shape
from tests.generate.worlds import Files, every, length, play_files

GENERATOR = SweGenerator()
TOOLS = {"list_files", "read_file", "search", "edit_file", "run_tests", "submit"}


def failed(task: Task, files: Files) -> list[str]:
    """Ids of the tests that fail, public and hidden."""
    sources = {path: data.decode() for path, data in files.items()}
    suites = {HIDDEN: task.tests[HIDDEN].decode(), PUBLIC: sources.pop(PUBLIC)}
    return [f"{path}::{n}" for path, text in suites.items() for n in failing(sources, text)]


def test_every_family_and_difficulty_builds_within_its_limits():
    for task in every(GENERATOR, seeds=20):
        check_shape(task, "swe", 1_536)
        assert {call.name for call in task.oracle} <= TOOLS
        for path, data in task.files.items():
            if path != PUBLIC:
                assert len(data.decode().splitlines()) <= 12, f"{task.id}: {path}"


def test_tasks_are_the_same_bytes_on_every_machine():
    assert GENERATOR.make("wrong_return", 5, 5, "train") == GENERATOR.make(
        "wrong_return", 5, 5, "train"
    )
    assert digest(every(GENERATOR, seeds=2)) == PINNED


PINNED = "47f682b78cc3831b24e226227c632afb"


def test_the_oracle_mends_what_the_hidden_tests_find():
    for task in every(GENERATOR, seeds=10):
        assert any(test.startswith(HIDDEN) for test in failed(task, task.files)), task.id
        files, seen = play_files(task, task.oracle)
        assert failed(task, files) == [], task.id
        assert length(task, seen) <= 1_600, task.id


def test_two_bugs_need_two_edits():
    halves = 0
    for task in every(GENERATOR, seeds=10):
        edits = [i for i, call in enumerate(task.oracle) if call.name == "edit_file"]
        if len(edits) == 2:
            halves += 1
            files, _ = play_files(task, task.oracle[: edits[1]])
            assert failed(task, files), task.id
    assert halves > 10


def test_required_tests_are_exactly_those_that_exist():
    task = GENERATOR.make("wrong_constant", 4, 2, "train")
    text = {HIDDEN: task.tests[HIDDEN].decode(), PUBLIC: task.files[PUBLIC].decode()}
    found = [
        f"{path}::{line[4:].split('(')[0]}"
        for path in (HIDDEN, PUBLIC)
        for line in text[path].splitlines()
        if line.startswith("def test_")
    ]
    assert task.meta["expected_tests"] == found
    assert len(found) == len(set(found))


def test_public_tests_show_the_bug_sometimes_but_not_always():
    shows = [any(t.startswith(PUBLIC) for t in failed(k, k.files)) for k in every(GENERATOR, 5)]
    assert 0.3 < sum(shows) / len(shows) < 0.95


def test_an_issue_names_its_file_only_while_it_is_easy():
    for task in every(GENERATOR, seeds=5):
        named = any(path in task.instruction for path in task.files)
        assert named == (task.difficulty <= 2), task.id
        assert not any(c.arguments.get("new", "\0") in task.instruction for c in task.oracle)


def test_an_unknown_family_is_named():
    with pytest.raises(ConfigError, match="no family 'nope'"):
        GENERATOR.make("nope", 1, 0, "train")
