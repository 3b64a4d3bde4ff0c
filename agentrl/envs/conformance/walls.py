"""Promises of isolation and limits; a backend that does not make them says so by name."""

import asyncio
import os
import socket
from typing import Any

from agentrl.envs.conformance.kit import Table, open_box, same, task, true
from agentrl.envs.sandbox import OpenSandbox
from agentrl.task import SandboxSpec, Task

table = Table()
SMALL = SandboxSpec(memory_mb=128, pids=24, disk_mb=8)
CLOSED = (
    *("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger"),
    *("/proc/1/mem", "/sys/fs/cgroup/pids/cgroup.procs", "/dev/vda", "/dev/kvm", "/dev/mem"),
    "/usr/bin/env",
)


async def python(opener: OpenSandbox, program: str) -> str:
    async with open_box(opener, task(**{"program.py": program.encode()})) as box:
        result = await box.exec(["python3", "program.py"], timeout_s=30)
        same(result.err.text, "", "complaints")
        return str(result.out.text)


def small(**files: bytes) -> Task:
    return Task("limits", "conformance", "", files=files, sandbox=SMALL)


@table.promise("a box has no network but its own loopback", "isolation")
async def network(opener: OpenSandbox) -> None:
    program = """
import socket
print([line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]])
for address in ("192.0.2.1", "169.254.169.254"):
    try:
        socket.create_connection((address, 80), timeout=5)
        print("reached")
    except OSError:
        print("out of reach")
"""
    want = "['lo']\nout of reach\nout of reach\n"
    same(await python(opener, program), want, "interfaces and addresses")


@table.promise("services of the host are out of reach", "isolation")
async def services(opener: OpenSandbox) -> None:
    name = f"\0agentrl-conformance-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(name)
        abstract.listen()
        program = f"""
import socket
for family, address in ((socket.AF_INET, {tcp.getsockname()!r}), (socket.AF_UNIX, {name!r})):
    try:
        socket.socket(family).connect(address)
        print("reached")
    except OSError:
        print("out of reach")
"""
        same(await python(opener, program), "out of reach\n" * 2, "tcp and abstract sockets")


@table.promise("the host's environment and processes are invisible", "isolation")
async def invisible(opener: OpenSandbox) -> None:
    secret = f"hush-{os.getpid()}-hush"
    os.environ["AGENTRL_CONFORMANCE"] = secret
    try:
        async with open_box(opener) as box:
            look = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; echo; ls -d /proc/[0-9]*"
            said = (await box.exec(["sh", "-c", look])).out.text
    finally:
        del os.environ["AGENTRL_CONFORMANCE"]
    true(secret not in said, "the harness's environment shows")
    shown = said.rpartition("\0")[2].split()
    true(len(shown) < 12, f"{len(shown)} processes show")


@table.promise("nothing of the host opens for writing", "isolation")
async def closed(opener: OpenSandbox) -> None:
    program = f"""
import os
for path in {CLOSED!r}:
    try:
        os.open(path, os.O_WRONLY)
        print("OPENED", path)
    except OSError:
        pass
"""
    same(await python(opener, program), "", "what opened")


@table.promise("users, mounts and devices cannot be made", "isolation")
async def powers(opener: OpenSandbox) -> None:
    script = "unshare -Ur true && echo USERS; mount -t tmpfs x /tmp && echo MOUNTS; " + (
        "mknod /tmp/n b 8 0 && echo DEVICES; true"
    )
    async with open_box(opener) as box:
        same((await box.exec(["sh", "-c", script])).out.text, "", "what was made")


@table.promise("killing everything from within leaves a box that works", "isolation")
async def kill_all(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        await box.exec(["bash", "-c", "kill -9 1; kill -STOP 1; kill -9 -1"], timeout_s=20)
        same((await box.exec(["echo", "fine"])).out.text, "fine\n", "the next command")


@table.promise("a memory bomb is killed and named", "limit:memory")
async def memory(opener: OpenSandbox) -> None:
    async with open_box(opener, small()) as box:
        result = await box.exec(["python3", "-c", "x = bytearray(10**9); print(len(x))"])
        true(result.code != 0, "it got all the memory it wanted")
        if _counted(opener, "memory"):
            told = (result.code, result.oom, result.limit)
            same(told, (137, True, "memory"), "how it ended")
        after = await box.exec(["echo", "fine"])
        same((after.out.text, after.oom, after.limit), ("fine\n", False, None), "the next one")


@table.promise("a fork bomb meets its limit and the box recovers", "limit:pids", "shell")
async def pids(opener: OpenSandbox) -> None:
    async with open_box(opener, small()) as box:
        bomb = "bomb() { bomb | bomb & }; bomb; sleep 0.3"
        result = await box.shell(bomb, timeout_s=1.0)
        if _counted(opener, "pids"):
            same(result.limit, "pids", "the limit it met")
        again = await box.exec(["echo", "fine"], timeout_s=20)
        same(again.out.text, "fine\n", "the next command")


@table.promise("a full disk is named and can be cleared", "limit:disk")
async def disk(opener: OpenSandbox) -> None:
    async with open_box(opener, small()) as box:
        one = await box.exec(["sh", "-c", "exec head -c 9000000 /dev/zero >g"], timeout_s=30)
        true(one.code != 0, "a file larger than the disk was written")
        same(one.limit, "disk", "the limit it met")
        same((await box.exec(["rm", "g"])).limit, None, "after it was removed")
        if "tmpfs" in getattr(opener, "enforcement", {}).get("disk", "tmpfs"):
            script = "for i in 1 2 3 4; do head -c 3000000 /dev/zero >f$i || exit 1; done"
            several = await box.exec(["sh", "-c", script], timeout_s=30)
            same((several.code, several.limit), (1, "disk"), "several files")
        same((await box.exec(["sh", "-c", "rm -f f*; echo x >x; cat x"])).out.text, "x\n", "after")


@table.promise("a busy loop gets no more than its share of the processor", "limit:cpu")
async def cpu(opener: OpenSandbox) -> None:
    program = b"""
import os, time
for _ in range(3):
    if not os.fork():
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass
        os._exit(0)
for _ in range(3):
    os.wait()
print(sum(os.times()[2:4]))
"""
    spec = SandboxSpec(cpus=0.25)
    quarter = Task("cpu", "conformance", "", files={"burn.py": program}, sandbox=spec)
    async with open_box(opener, quarter) as box:
        result = await box.exec(["python3", "burn.py"], timeout_s=60)
        used = float(result.out.text)
        true(used < 1.0, f"three loops of 1.5 s used {used:.2f} s of a quarter of a processor")


@table.promise("open files are limited", "isolation")
async def descriptors(opener: OpenSandbox) -> None:
    program = "import os\nwhile True: os.open('/dev/null', 0)"
    async with open_box(opener) as box:
        result = await box.exec(["python3", "-c", program], timeout_s=30)
        true("Too many open files" in result.err.text, f"it said {result.err.text[-200:]!r}")


@table.promise("neighbours go on while one box misbehaves", "limit:pids", "limit:memory", "shell")
async def neighbours(opener: OpenSandbox) -> None:
    async def behave() -> Any:
        async with open_box(opener) as box:
            return [(await box.exec(["echo", str(n)])).out.text for n in range(5)]

    async def misbehave() -> None:
        async with open_box(opener, small()) as box:
            await box.shell("bomb() { bomb | bomb & }; bomb; sleep 0.5", timeout_s=1.0)

    said, _ = await asyncio.gather(behave(), misbehave())
    same(said, [f"{n}\n" for n in range(5)], "what the neighbour saw")


def _counted(opener: OpenSandbox, limit: str) -> bool:
    """Whether the kernel counts for the box as a whole; else each process has its own limit."""
    return "cgroup" in str(getattr(opener, "enforcement", {}).get(limit, "cgroup"))
