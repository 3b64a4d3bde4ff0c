"""What is on disk is what happened, whatever happens to the process that writes it."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.errors import ConfigError, RunError, StoreError
from agentrl.messages import Message
from agentrl.task import Task
from agentrl.trajectory.events import (
    BatchTrained,
    Credited,
    EpisodeHappening,
    EpisodeOpened,
    EpisodeStopped,
    Event,
    Observed,
    Replied,
)
from agentrl.trajectory.records import TokenSpan
from agentrl.trajectory.store import EpisodeLog, RunStore
from agentrl.trajectory.tokens import rounded

from .strategies import credits, lives, run_events

TASK = Task("t/1", "t", "do it")
SPAN = TokenSpan([1, 2], [3, 4], [-0.1, -0.2], [(0, 1)], True, 1)

WRITERS = st.sampled_from(["w0", "w1"])
DICE = st.integers(1, 6)


def opened(episode: str, at: float = 1.0) -> EpisodeOpened:
    return EpisodeOpened(episode=episode, group="g", task=TASK, at=at)


def replied(episode: str, text: str = "hi", at: float = 2.0) -> Replied:
    return Replied(
        episode=episode, by="agent", reply=Message("assistant", text), tokens=SPAN, at=at
    )


def of(event: Event, index: int) -> bool:
    return isinstance(event, EpisodeHappening) and event.episode.endswith(f".{index}")


@settings(deadline=None, max_examples=20)
@given(data=st.data(), rotate=st.sampled_from([1, 900, 1 << 20]))
def test_what_was_written_is_what_was_lived(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, rotate: int
) -> None:
    """Several episodes interleaved over two writers that come and go; a third one credits."""
    root = tmp_path_factory.mktemp("run")
    todo = {name: data.draw(lives(name)) for name in ("a", "b", "c")}
    home = {name: data.draw(WRITERS) for name in todo}
    stores = {name: RunStore(root, name, rotate_bytes=rotate) for name in ("w0", "w1", "trainer")}
    logs = {name: EpisodeLog(stores[home[name]], name) for name in todo}
    while any(todo.values()):
        left = [name for name in todo if todo[name]]
        name = left[data.draw(DICE) % len(left)]
        logs[name].write(todo[name].pop(0))
        if data.draw(DICE) == 1:
            writer = data.draw(WRITERS)
            stores[writer].append(data.draw(run_events))
        if data.draw(DICE) == 6:
            writer = home[name]
            stores[writer].close()
            stores[writer] = RunStore(root, writer, rotate_bytes=rotate)
            for other in todo:
                if home[other] == writer:
                    known = logs[other]
                    state = known.trajectory if _began(known) else None
                    logs[other] = EpisodeLog(stores[writer], other, state)
    for name in todo:
        credit = EpisodeLog(stores["trainer"], name, logs[name].trajectory)
        credit.write(data.draw(credits(name)))
        logs[name] = credit
    lived = {name: log.trajectory for name, log in logs.items()}
    assert RunStore(root).trajectories() == lived
    for store in stores.values():
        store.close()
    reader = RunStore(root)
    assert reader.trajectories() == lived
    assert {name: reader.trajectory(name) for name in lived} == lived
    assert reader.torn == 0
    assert not [path for path in root.rglob("*") if path.suffix in (".jsonl", ".arrows", ".tmp")]


def _began(log: EpisodeLog) -> bool:
    try:
        return bool(log.trajectory.id)
    except StoreError:
        return False


def test_a_reply_knows_its_row_and_its_rounded_tokens(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        log = EpisodeLog(store, "e")
        log.write(opened("e"))
        log.write(replied("e"))
        assert log.trajectory.steps[0].tokens == rounded(SPAN)
        (_, reply) = store.events()
        (_, bare) = store.events(tokens=False)
    assert isinstance(reply, Replied)
    assert isinstance(bare, Replied)
    assert (reply.tokens, reply.row) == (rounded(SPAN), ("main-000001", 0))
    assert (bare.tokens, bare.row) == (None, ("main-000001", 0))


def test_a_tail_torn_at_any_byte_costs_only_that_event(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run")
    events: list[Event] = [opened("e"), replied("e"), EpisodeStopped(episode="e", why="done")]
    kept = [store.append(event) for event in events[:2]]
    (path,) = (tmp_path / "run/events").iterdir()
    whole = path.stat().st_size
    store.append(events[2])
    data = path.read_bytes()
    for end in range(whole, len(data)):
        copy = tmp_path / f"cut-{end}"
        shutil.copytree(tmp_path / "run", copy)
        (copy / "events" / path.name).write_bytes(data[:end])
        reader = RunStore(copy)
        assert list(reader.events()) == kept
        assert reader.torn == (end > whole)
        with RunStore(copy) as again:
            more = again.append(EpisodeStopped(episode="e", why="error", at=9.0))
        assert list(reader.events()) == [*kept, more]
        assert reader.torn == 0


@pytest.mark.parametrize("packed", [False, True])
def test_a_bad_line_in_the_middle_is_named_with_a_way_on_that_works(
    tmp_path: Path, packed: bool
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    with RunStore(tmp_path / "other") as store:
        for episode in "abc":
            store.append(opened(episode))
        (path,) = (tmp_path / "other/events").iterdir()
        lines = path.read_bytes().splitlines(keepends=True)
    plain = folder / "main-000001.jsonl"
    plain.write_bytes(lines[0] + b'{"event":"dreamt"}\n' + lines[2])
    if packed:
        with RunStore(tmp_path) as store:
            store.append(opened("d"))
        assert not plain.exists()
    with pytest.raises(StoreError, match="line 2 is not an event") as caught:
        list(RunStore(tmp_path).events())
    assert caught.value.where.endswith("main-000001.jsonl.zst:2" if packed else "jsonl:2")
    command = caught.value.help.split("drop the line: ")[1]
    if packed and shutil.which("zstd") is None:
        assert command.startswith("zstd -dc ")
        return
    subprocess.run(["bash", "-c", command], check=True)
    assert list(RunStore(tmp_path).trajectories()) == ["a", "c", *(["d"] if packed else [])]


def test_a_cut_packed_shard_is_an_error_not_a_shorter_run(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for number in range(50):
            store.append(opened(f"e{number}"))
    (path,) = (tmp_path / "events").iterdir()
    data = path.read_bytes()
    for end in (0, 3, len(data) // 2, len(data) - 6):
        path.write_bytes(data[:end])
        with pytest.raises(StoreError, match="an event shard cannot be read"):
            list(RunStore(tmp_path).events())


def test_writers_are_merged_by_time_and_credit_waits_for_the_opening(tmp_path: Path) -> None:
    with RunStore(tmp_path, "trainer") as trainer, RunStore(tmp_path, "w0") as writer:
        credit = trainer.append(Credited(episode="e", by="o", advantages=(1.0,), step=1, at=1.0))
        late = trainer.append(BatchTrained(step=1, groups=("g",), at=9.0))
        first = writer.append(opened("x", at=0.5))
        start = writer.append(opened("e", at=5.0))  # its clock was ahead
        stop = writer.append(EpisodeStopped(episode="e", why="done", at=6.0))
        assert list(trainer.events()) == [first, start, credit, stop, late]
        assert trainer.trajectories()["e"].trained_step == 1


def test_an_episode_without_any_opening_is_reported(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append(opened("a"))
        stray = store.append(EpisodeStopped(episode="b", why="done", at=0.0))
        after = store.append(EpisodeStopped(episode="a", why="done"))
        assert list(store.events())[1:] == [stray, after]
        with pytest.raises(StoreError, match="episode 'b'"):
            store.trajectories()


def test_groups_hold_siblings_in_order_of_opening(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for episode in ("b", "a"):
            store.append(opened(episode))
        store.append(EpisodeOpened(episode="c", group="h", task=TASK))
        found = store.groups()
    assert {group: [t.id for t in members] for group, members in found.items()} == {
        "g": ["b", "a"],
        "h": ["c"],
    }


def test_following_a_live_run_sees_each_event_once_across_rotations(tmp_path: Path) -> None:
    stores = [RunStore(tmp_path, writer, rotate_bytes=700) for writer in ("w0", "w1")]
    written: list[Event] = []
    finished = threading.Event()

    def write() -> None:
        for number in range(60):
            for index, store in enumerate(stores):
                episode = f"e{number}.{index}"
                written.append(store.append(opened(episode, at=float(number))))
                written.append(store.append(replied(episode, at=float(number))))
        for store in stores:
            store.close()
        finished.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = list(RunStore(tmp_path).follow(0.001, done=finished.is_set))
    thread.join()
    assert len(seen) == len(written) == 240
    for index in range(2):  # each writer's events in its own order
        assert [e for e in seen if of(e, index)] == [e for e in written if of(e, index)]


def test_following_without_the_past_begins_with_what_comes(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append(opened("old"))
        looks: list[int] = []

        def done() -> bool:
            looks.append(1)
            if len(looks) == 2:
                store.append(EpisodeStopped(episode="old", why="done", at=2.0))
            return len(looks) > 2

        seen = list(store.follow(0.0, past=False, done=done))
    assert seen == [EpisodeStopped(episode="old", why="done", at=2.0)]


def test_reading_changes_nothing_on_disk(tmp_path: Path) -> None:
    root = tmp_path / "run"
    assert list(RunStore(root).events()) == []
    assert RunStore(root).trajectories() == {}
    assert not root.exists()
    with pytest.raises(StoreError, match="no episode 'e' in this run"):
        RunStore(root).trajectory("e")


def test_one_writers_name_is_held_by_one_store(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append(opened("a"))
        with pytest.raises(RunError, match="under the same writer's name"):
            RunStore(tmp_path).append(opened("b"))
        with RunStore(tmp_path, "other") as other:
            other.append(opened("c"))
    with RunStore(tmp_path) as again:
        again.append(opened("b"))
        assert set(again.trajectories()) == {"a", "b", "c"}


def test_a_writers_name_must_be_a_file_name(tmp_path: Path) -> None:
    for name in ("", "../x", "a b", "-x"):
        with pytest.raises(ConfigError, match="cannot name a writer"):
            RunStore(tmp_path, name)


KILLED = """
import sys
from pathlib import Path
from agentrl.trajectory.store import RunStore
sys.path.insert(0, sys.argv[2])
from trajectory.test_store import opened, replied
store = RunStore(Path(sys.argv[1]), rotate_bytes=4_000)
for number in range(10**9):
    store.append(opened(f"e{number}"))
    store.append(replied(f"e{number}"))
    print(number, flush=True)
"""


def test_a_killed_writer_loses_at_most_the_event_it_was_writing(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), tests], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(40)]
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate()
    done = len(said) + len(rest.splitlines())
    with RunStore(tmp_path) as store:
        found = store.trajectories()
        assert len(found) in (done, done + 1)
        complete = [t for t in found.values() if t.steps]
        assert len(complete) >= done
        assert all(t.steps[0].tokens == rounded(SPAN) for t in complete)
        store.append(opened("next"))
    assert list(RunStore(tmp_path).trajectories()) == [*found, "next"]
    assert not list(tmp_path.rglob("*.jsonl"))


def test_appending_from_many_threads_loses_and_mixes_nothing(tmp_path: Path) -> None:
    heard: list[Event] = []
    with RunStore(tmp_path, rotate_bytes=5_000, on_event=heard.append) as store:

        def live(episode: str) -> None:
            log = EpisodeLog(store, episode)
            log.write(opened(episode))
            for turn in range(20):
                log.write(replied(episode, str(turn)))

        threads = [threading.Thread(target=live, args=(f"e{n}",)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = store.trajectories()
        assert len(heard) == 6 * 21
        assert set(map(repr, heard)) == set(map(repr, store.events()))
    for trajectory in found.values():
        assert [step.reply.content for step in trajectory.steps] == [str(n) for n in range(20)]


def test_a_log_writes_nothing_that_could_not_be_folded(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        log = EpisodeLog(store, "e")
        with pytest.raises(StoreError, match="nothing has been written"):
            _ = log.trajectory
        with pytest.raises(StoreError, match="without its opening"):
            log.write(replied("e"))
        with pytest.raises(StoreError, match="given to the log of another"):
            log.write(opened("f"))
        log.write(opened("e"))
        with pytest.raises(StoreError, match="without a reply"):
            log.write(Observed(episode="e", seen=()))
        assert [type(event) for event in store.events()] == [EpisodeOpened]


def test_lost_token_columns_are_named_and_the_words_stay_readable(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.append(opened("e"))
        store.append(replied("e"))
    (path,) = (tmp_path / "tokens").iterdir()
    os.unlink(path)
    with pytest.raises(StoreError, match="the tokens of row 0 are missing"):
        RunStore(tmp_path).trajectories()
    assert RunStore(tmp_path).trajectories(tokens=False)["e"].steps[0].reply.content == "hi"
