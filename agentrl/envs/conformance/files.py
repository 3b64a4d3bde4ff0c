"""Promises of files: what is placed before the start, what is read and written later."""

from agentrl.envs.conformance.kit import Table, open_box, raises, same, task
from agentrl.envs.sandbox import OpenSandbox
from agentrl.errors import SandboxError, TaskError
from agentrl.task import SandboxSpec, Task

table = Table()


@table.promise("files arrive with their modes and a fixed time")
async def arrive(opener: OpenSandbox) -> None:
    files = {"a/run.sh": b"#!/bin/sh\necho ran\n", "b.txt": b"b"}
    async with open_box(opener, task(**files)) as box:
        shown = await box.exec(["stat", "-c", "%a %Y %n", "a/run.sh", "b.txt"])
        want = "755 1704067200 a/run.sh\n644 1704067200 b.txt\n"
        same(shown.out.text, want, "mode, time and name")
        same((await box.exec(["a/run.sh"])).out.text, "ran\n", "running one")


@table.promise("task files that lead out of the workdir are refused")
async def lead_out(opener: OpenSandbox) -> None:
    for path in ("../x", "/etc/x", "a/../../x", "", ".", "a\0b"):
        with raises(TaskError, f"the file {path!r}"):
            async with open_box(opener, task(**{path: b"x"})):
                pass


@table.promise("extra files must be absolute and reachable")
async def extra_refused(opener: OpenSandbox) -> None:
    for path in ("tests/x", "/tests/../x", "/proc/x", "/usr/bin/x", "/"):
        with raises(TaskError, f"the extra file {path!r}"):
            async with open_box(opener, extra={path: b"x"}):
                pass


@table.promise("extra files are where they were asked for")
async def extra(opener: OpenSandbox) -> None:
    async with open_box(opener, extra={"/tests/deep/run.py": b"print('judged')"}) as box:
        same(await box.read("/tests/deep/run.py"), b"print('judged')", "its content")
        said = (await box.exec(["@python", "/tests/deep/run.py"])).out.text
        same(said, "judged\n", "running it")
        same((await box.exec(["ls"])).out.text, "", "the workdir")


@table.promise("what is written is read back byte for byte")
async def written(opener: OpenSandbox) -> None:
    every = bytes(range(256)) * 4_000
    async with open_box(opener) as box:
        await box.write("deep/down/data", every)
        same(await box.read("deep/down/data"), every, "by a relative path")
        same(await box.read("/workspace/deep/down/data"), every, "by an absolute path")
        await box.write("deep/down/data", b"")
        same(await box.read("deep/down/data"), b"", "after writing nothing")


@table.promise("reading what is not a readable file raises like open")
async def unreadable(opener: OpenSandbox) -> None:
    async with open_box(opener, task(f=b"a file")) as box:
        await box.exec(["sh", "-c", "mkdir d; mkfifo p; ln -s loop loop"])
        with raises(FileNotFoundError, "reading what is not there"):
            await box.read("nothing")
        with raises(IsADirectoryError, "reading a directory"):
            await box.read("d")
        with raises(PermissionError, "reading a pipe"):
            await box.read("p")
        with raises(OSError, "reading a link to itself"):
            await box.read("loop")
        with raises(IsADirectoryError, "writing to a directory"):
            await box.write("d", b"x")
        with raises(OSError, "writing below a file"):
            await box.write("f/a/b", b"x")


@table.promise("what a backend cannot offer is refused before a box opens")
async def refused(opener: OpenSandbox) -> None:
    wishes = {
        "an image that is not there": SandboxSpec(image="agentrl-conformance:no-such-image"),
        "a workdir that is not absolute": SandboxSpec(workdir="x"),
    }
    for name, wish in wishes.items():
        with raises(TaskError, name):
            async with open_box(opener, Task("t", "conformance", "", sandbox=wish)):
                pass
    with raises((SandboxError, TaskError), "a snapshot that is not there"):
        async with open_box(opener, snapshot="no-such-snapshot"):
            pass
