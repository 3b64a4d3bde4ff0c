from collections import Counter
from itertools import islice

import msgspec
import pytest

from agentrl.errors import ConfigError, TaskError
from agentrl.generate.filesystem import FilesystemGenerator
from agentrl.generate.ledger import (
    Ledger,
    Training,
    cells,
    check_disjoint,
    content_hash,
    digest,
    held_out,
    training,
)
from agentrl.generate.swe import SweGenerator
from agentrl.generate.terminal import TerminalGenerator

FILES = FilesystemGenerator()


def test_held_out_tasks_are_uniform_different_and_frozen():
    tasks = held_out(FILES, "filesystem", 120)
    counts = Counter((task.family, task.difficulty) for task in tasks)
    assert counts == dict.fromkeys(cells(FILES), 4)
    assert len({content_hash(task) for task in tasks}) == 120
    assert {task.meta["split"] for task in tasks} == {"held_out"}
    assert digest(tasks) == digest(reversed(held_out(FILES, "filesystem", 120)))
    assert digest(tasks) != digest(held_out(FILES, "filesystem", 120, seed=1))
    assert digest(tasks) == "08b2b9b7699379ad9bd5e103e9504c69"


def test_another_domains_generator_is_refused():
    with pytest.raises(ConfigError, match="makes 'filesystem' tasks, not 'swe'"):
        held_out(FILES, "swe", 1)


@pytest.mark.parametrize(
    ("generator", "domain"),
    [(FILES, "filesystem"), (TerminalGenerator(), "terminal"), (SweGenerator(), "swe")],
)
def test_training_never_meets_the_held_out_set(generator, domain):
    held = held_out(generator, domain, 100)
    check_disjoint(islice(training(generator, 0), 300), held)


def test_a_shared_task_or_value_is_found():
    held = held_out(FILES, "filesystem", 30)
    again = msgspec.structs.replace(held[0], id="filesystem/x/1/train-1", meta={})
    with pytest.raises(TaskError, match="equals a held-out task"):
        check_disjoint([again], held)
    train = next(training(FILES, 0))
    leak = msgspec.structs.replace(train, meta={**train.meta, "values": ["leak"]})
    same = msgspec.structs.replace(held[0], meta={**leak.meta})
    with pytest.raises(TaskError, match="held-out values: leak"):
        Ledger([same]).check(leak)


def test_the_content_hash_ignores_ids_and_seeds_but_no_content():
    task = FILES.make("create", 1, 0, "train")
    renamed = msgspec.structs.replace(task, id="other", meta={"seed": 9})
    assert content_hash(renamed) == content_hash(task)
    for change in ({"instruction": "no"}, {"files": {}}, {"tests": {}}):
        assert content_hash(msgspec.structs.replace(task, **change)) != content_hash(task)


def test_the_training_stream_resumes_by_its_counter():
    stream = [task.id for task in islice(training(FILES, 3), 50)]
    assert [task.id for task in islice(training(FILES, 3, start=20), 30)] == stream[20:]
    assert stream != [task.id for task in islice(training(FILES, 4), 50)]
    assert len(set(stream)) == 50


def test_every_round_of_the_stream_holds_each_cell_once():
    source = Training(FILES, 0)
    n = len(cells(FILES))
    rounds = [[source.cell_at(turn * n + i) for i in range(n)] for turn in range(3)]
    assert all(sorted(r) == sorted(cells(FILES)) for r in rounds)
    assert rounds[0] != rounds[1]


def test_weights_say_what_is_drawn():
    source = Training(FILES, 0, {("create", 1): 3.0, ("merge", 5): 1.0})
    counts = Counter(source.cell_at(i) for i in range(400))
    assert counts.keys() == {("create", 1), ("merge", 5)}
    assert 250 < counts["create", 1] < 350
    with pytest.raises(ConfigError, match="none below 0"):
        Training(FILES, 0, {("create", 1): 0.0}).cell_at(0)
