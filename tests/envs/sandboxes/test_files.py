"""The host's side of a box's files."""

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.envs.sandboxes import reaper
from agentrl.envs.sandboxes.files import Folder, inside, sweep
from agentrl.errors import TaskError

PARTS = st.lists(st.sampled_from(["a", "..", ".", "", "b c", "/"]), max_size=5)


@given(PARTS)
def test_an_accepted_path_never_leads_above_where_it_starts(parts: list[str]) -> None:
    path = "/".join(parts)
    try:
        accepted = inside(path, "work")
    except TaskError:
        return
    assert accepted[0] == "work"
    assert len(accepted) > 1
    assert not {"..", "", ".", "/"} & set(accepted)


def test_a_folder_is_private_sized_where_possible_and_removed() -> None:
    folder = Folder(None, 1, sized=os.geteuid() == 0)
    try:
        assert folder.path.stat().st_mode & 0o777 == 0o700
        folder.place(("w", "f"), b"x" * 500_000)
        assert not folder.full
        if folder.mounted:
            with pytest.raises(OSError, match="No space"):
                folder.place(("w", "g"), b"x" * 900_000)
            assert folder.full
    finally:
        folder.remove()
    assert not folder.path.exists()


def test_later_files_replace_what_is_in_their_way() -> None:
    folder = Folder(None, 1, sized=False)
    try:
        folder.place(("w", "a"), b"file")
        folder.place(("w", "a", "b"), b"below")
        folder.place(("w",), b"file again")
        assert (folder.path / "upper/w").read_bytes() == b"file again"
    finally:
        folder.remove()


def test_a_harvest_stays_within_its_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "TOTAL_CAP", 10)
    monkeypatch.setattr(reaper, "ENTRY_CAP", 4)
    folder = Folder(None, 1, sized=False)
    try:
        for name in "abcdef":
            folder.place(("w", name), b"1234")
        harvest = folder.harvest(("w",))
        assert set(harvest.files) == {"a", "b"}
        assert harvest.skipped == ("c (too large)", "d (too large)", "e (too many entries)")
        assert folder.harvest(("nowhere",)).files == {}
    finally:
        folder.remove()


def test_only_folders_of_the_dead_are_swept() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    dead = Path(f"/dev/shm/agentrl-{child}-0")
    alive = Path(f"/dev/shm/agentrl-{os.getppid()}-999999")
    other = Path("/dev/shm/agentrl-notes")
    for path in (dead, alive, other):
        path.mkdir()
    try:
        (dead / "upper").mkdir()
        sweep(None)
        assert [path.exists() for path in (dead, alive, other)] == [False, True, True]
    finally:
        alive.rmdir()
        other.rmdir()


def test_a_harvest_of_deep_trees_in_many_layers_needs_few_descriptors() -> None:
    layers = [Folder(None, 1, sized=False) for _ in range(40)]
    deep = tuple("abcdefghijklmnopqrst")
    try:
        for number, folder in enumerate(layers):
            folder.place(("w", *deep, f"f{number}"), b"%d" % number)
            folder.place(("w", "same"), b"%d" % number)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
        try:
            harvest = layers[0].harvest(("w",), layers[1:])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert harvest.files["same"] == (0o644, b"0")
        assert len(harvest.files) == 1 + len(deep) + 40
    finally:
        for folder in layers:
            folder.remove()


def test_a_link_in_the_way_is_replaced_not_followed(tmp_path: Path) -> None:
    folder = Folder(None, 1, sized=False)
    try:
        upper = folder.path / "upper"
        (tmp_path / "kept").write_bytes(b"kept")
        for name, target in {"folder": tmp_path, "file": tmp_path / "kept"}.items():
            (upper / name).symlink_to(target)
        folder.place(("folder", "new"), b"x")
        folder.place(("file",), b"x")
        assert (upper / "folder/new").read_bytes() == (upper / "file").read_bytes() == b"x"
        assert not (upper / "file").is_symlink()
        assert [path.name for path in tmp_path.iterdir()] == ["kept"]
        assert (tmp_path / "kept").read_bytes() == b"kept"
    finally:
        folder.remove()
