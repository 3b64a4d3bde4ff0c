import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentrl.envs.filesystem import FilesystemEnv
from agentrl.envs.sandbox import ExecResult
from agentrl.task import Task
from tests.directory_box import DirectoryBox, Opener
from tests.envs.play import Answering, call, say

TASK = Task("t/1", "t", "Tidy.", files={"b.txt": b"bee\n", "a dir/c.txt": b"sea", "-x": b"dash"})


def played(script: Callable[[FilesystemEnv, DirectoryBox], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Opener()(TASK) as box:
            await script(FilesystemEnv(TASK, box), box)

    asyncio.run(run())


def test_a_listing_is_sorted_and_relative_to_the_workdir() -> None:
    async def script(env: FilesystemEnv, box: DirectoryBox) -> None:
        whole = "-x\na dir/\na dir/c.txt\nb.txt"
        assert await say(env, "list_files", path=".") == whole
        assert await say(env, "list_files", path="/workspace") == whole
        assert await say(env, "list_files", path="") == whole
        assert await say(env, "list_files", path="a dir") == "a dir/\na dir/c.txt"
        assert (await say(env, "list_files", path="no")).startswith(
            "error: cannot list no: No such"
        )
        for number in range(100):
            await box.write(f"many/{number:03}", b"")
        assert (await say(env, "list_files", path="many")).endswith("[... and 41 more]")

    played(script)


def test_files_are_read_written_moved_and_deleted() -> None:
    async def script(env: FilesystemEnv, box: DirectoryBox) -> None:
        assert await say(env, "read_file", path="b.txt") == "bee"
        assert (
            await say(env, "write_file", path="n/e w/f", content="ä") == "wrote 2 bytes to n/e w/f"
        )
        assert await box.read("n/e w/f") == "ä".encode()
        assert "moved -x to k/y" in await say(env, "move_file", source="-x", destination="k/y")
        assert await box.read("k/y") == b"dash"
        await say(env, "move_file", source="b.txt", destination="new dir/")
        assert await box.read("new dir/b.txt") == b"bee\n"
        assert await say(env, "delete_file", path="a dir") == "deleted a dir"
        assert await say(env, "list_files", path="a dir") != ""
        assert not box.real("a dir").exists()

    played(script)


def test_what_cannot_be_done_is_said() -> None:
    async def script(env: FilesystemEnv, box: DirectoryBox) -> None:
        assert await say(env, "read_file", path="no") == "error: no such file: no"
        assert await say(env, "read_file", path="a dir") == "error: not a file: a dir"
        assert await say(env, "read_file", path="b.txt/x") == "error: not a file: b.txt/x"
        assert (await say(env, "write_file", path="a dir", content="")).startswith(
            "error: cannot w"
        )
        assert (await say(env, "write_file", path="b.txt/x", content="")).startswith(
            "error: cannot"
        )
        assert (await say(env, "delete_file", path="no")).startswith("error: cannot delete no: No")
        assert (await say(env, "move_file", source="no", destination="x")).startswith("error:")
        assert (await say(env, "delete_file", path=".")).startswith("error:")
        assert (await say(env, "write_file", path="q/", content="")).startswith("error: not a file")

    played(script)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a dir/../../x", "/workspacex", "/"])
def test_nothing_outside_the_workdir_is_reached(path: str) -> None:
    async def script(env: FilesystemEnv, box: DirectoryBox) -> None:
        asked: dict[str, dict[str, object]] = {
            "list_files": {"path": path},
            "read_file": {"path": path},
            "write_file": {"path": path, "content": "x"},
            "delete_file": {"path": path},
            "move_file": {"source": "b.txt", "destination": path},
        }
        for name, arguments in asked.items():
            text = await say(env, name, **arguments)
            assert text.endswith("is outside the working directory")
        assert box.calls == []

    played(script)


def test_arguments_of_a_wrong_type_are_malformed() -> None:
    env = FilesystemEnv(TASK, Answering(ExecResult(0)))
    seen = asyncio.run(call(env, "write_file", path="x", content=5))
    assert seen.malformed == 1
    assert seen.messages[0].content == "error: content must be a string, not a number"
