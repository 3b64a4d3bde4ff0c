from agentrl.generate.demos import demo
from agentrl.generate.filesystem import FilesystemGenerator
from tests.generate.worlds import every, play_files, reached


def test_a_noisy_demonstration_still_solves_its_task():
    longer = 0
    tasks = list(every(FilesystemGenerator(), seeds=5))
    for task in tasks:
        calls = demo(task, seed=1)
        files, _ = play_files(task, calls)
        assert reached(task, files), task.id
        assert calls[-1].name == "submit"
        assert [call.id for call in calls] == [f"c{i}.0" for i in range(len(calls))]
        assert demo(task, seed=1) == calls
        longer += len(calls) > len(task.oracle)
    assert 0.05 < longer / len(tasks) < 0.3


def test_without_extra_looks_it_is_the_oracle():
    task = FilesystemGenerator().make("merge", 3, 0, "train")
    assert demo(task, look=0.0) == task.oracle
