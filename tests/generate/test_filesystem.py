from agentrl.generate.filesystem import FilesystemGenerator
from agentrl.generate.ledger import digest
from tests.generate.shape import check_shape
from tests.generate.worlds import every, length, play_files, reached

GENERATOR = FilesystemGenerator()
TOOLS = {"list_files", "read_file", "write_file", "move_file", "delete_file", "submit"}


def test_every_family_and_difficulty_builds_within_its_limits():
    for task in every(GENERATOR, seeds=20):
        check_shape(task, "filesystem", 1_024)
        assert {call.name for call in task.oracle} <= TOOLS


def test_tasks_are_the_same_bytes_on_every_machine():
    assert GENERATOR.make("merge", 3, 5, "train") == GENERATOR.make("merge", 3, 5, "train")
    assert digest(every(GENERATOR, seeds=2)) == PINNED


PINNED = "4349d61eddac3c5d6aa9e8a59e816033"


def test_the_oracle_reaches_the_expected_state_and_no_shorter_one_does():
    for task in every(GENERATOR, seeds=20):
        files, seen = play_files(task, task.oracle)
        assert reached(task, files), f"{task.id}: {files}"
        assert length(task, seen) <= 1_200, task.id
        for n in range(len(task.oracle) - 1):
            files, _ = play_files(task, task.oracle[:n])
            assert not reached(task, files), f"{task.id}: {n} calls are enough"


def test_what_must_be_read_is_not_said_in_the_instruction():
    for seed in range(20):
        task = GENERATOR.make("copy_value", 5, seed, "train")
        written = task.oracle[-2].arguments["content"]
        assert written not in task.instruction
        doomed = GENERATOR.make("delete", 4, seed, "train")
        assert doomed.oracle[-2].arguments["path"] not in doomed.instruction
