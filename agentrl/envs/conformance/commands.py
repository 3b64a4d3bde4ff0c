"""Promises of single commands: what they get, how they end, what is kept of their output."""

import asyncio

from agentrl.envs.conformance.kit import (
    Table,
    counting,
    inside,
    naptime,
    open_box,
    resident,
    same,
    task,
    true,
)
from agentrl.envs.sandbox import OpenSandbox

table = Table()

DAEMON = b"""
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.bind("door")
server.listen()
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
while True:
    there, _ = server.accept()
    print("somebody came", flush=True)
    there.sendall(b"pid %d" % os.getpid())
    there.close()
"""
VISIT = b"""
import socket
there = socket.socket(socket.AF_UNIX)
there.settimeout(5)
there.connect("door")
print(there.recv(100).decode())
"""


@table.promise("a command gets the workdir, empty input and its own two outputs")
async def plain(opener: OpenSandbox) -> None:
    async with open_box(opener, task(**{"hello.txt": b"hi"})) as box:
        result = await box.exec(["sh", "-c", "cat; ls; echo oops >&2; exit 7"])
        same(
            (result.code, result.out.text, result.err.text), (7, "hello.txt\n", "oops\n"), "result"
        )
        same((result.timed_out, result.dead), (None, False), "its ending")


@table.promise("what cannot start is a result, not an exception")
async def unstartable(opener: OpenSandbox) -> None:
    async with open_box(opener, task(plain=b"not a program")) as box:
        same((await box.exec(["no-such-program"])).code, 127, "a program that is not there")
        same((await box.exec(["./plain"])).code, 126, "a file that is no program")
        same((await box.exec(["echo", "a\0b"])).code, 126, "a NUL byte in an argument")
        same((await box.exec([])).code, 126, "no program at all")
        same((await box.exec(["sh", "-c", "kill -9 $$"])).code, 137, "killed by a signal")


@table.promise("a timeout ends the whole tree and keeps what was written")
async def timeout(opener: OpenSandbox) -> None:
    nap = naptime()
    script = (
        f"echo A; trap '' TERM INT HUP; (setsid sleep {nap} &); sleep {nap} & while :; do :; done"
    )
    async with open_box(opener, counting(nap)) as box:
        result = await box.exec(["bash", "-c", script], timeout_s=0.5)
        same((result.code, result.timed_out, result.out.text), (None, "total", "A\n"), "result")
        same(await inside(box), 0, "processes of it left")
        same((await box.exec(["echo", "usable"])).out.text, "usable\n", "the next command")


@table.promise("a daemon that hides does not survive its command's timeout")
async def hiding(opener: OpenSandbox) -> None:
    nap = naptime()
    script = f"(env -i setsid sleep {nap} >/dev/null 2>&1 &) ; sleep 60"
    async with open_box(opener, counting(nap)) as box:
        result = await box.exec(["bash", "-c", script], timeout_s=0.4)
        same(result.timed_out, "total", "the clock that ended it")
        same(await inside(box), 0, "processes of it left")


@table.promise("a background child does not hold the call")
async def background(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        result = await box.exec(["sh", "-c", "sleep 60 & echo done"], timeout_s=30)
        same((result.code, result.out.text, result.timed_out), (0, "done\n", None), "result")
        true(result.seconds < 20, f"it took {result.seconds:.1f} s")


@table.promise("a daemon lives on for later commands, and their timeouts leave it alone")
async def daemon(opener: OpenSandbox) -> None:
    async with open_box(opener, task(**{"daemon.py": DAEMON, "visit.py": VISIT})) as box:
        same((await box.exec(["python3", "daemon.py"], timeout_s=20)).code, 0, "starting it")
        for _ in range(2):
            said = (await box.exec(["python3", "visit.py"])).out.text
            true(said.startswith("pid "), f"a visitor was told {said!r}")
        slow = await box.exec(["sleep", "30"], timeout_s=0.2)
        same(slow.timed_out, "total", "another command's end")
        same((await box.exec(["python3", "visit.py"])).code, 0, "a visit after that")


@table.promise("a flood is kept in part and counted whole, in bounded memory")
async def flood(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        before = resident()
        result = await box.exec(["sh", "-c", "yes | head -c 200000000; echo end"], timeout_s=90)
        same(result.code, 0, "exit code")
        total = len(result.out.head) + len(result.out.tail) + result.out.dropped
        same(total, 200_000_004, "bytes accounted for")
        true(result.out.head.startswith(b"y\ny\n"), "the beginning is not kept")
        true(result.out.tail.endswith(b"y\nend\n"), "the end is not kept")
        true(result.out.dropped > 0, "nothing was dropped")
        true(resident() - before < 20 << 20, "this process grew by more than 20 MB")


@table.promise("bytes that are not UTF-8 come through as they are")
async def raw(opener: OpenSandbox) -> None:
    async with open_box(opener, task(raw=b"\xff\xfe\x00\x80\n")) as box:
        same((await box.exec(["cat", "raw"])).out.data, b"\xff\xfe\x00\x80\n", "stdout")


@table.promise("interactive programs see the end of input")
async def interactive(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        for argv in (["python3"], ["cat"], ["sh", "-c", "read x; echo got$x"]):
            result = await box.exec(argv, timeout_s=20)
            same(result.timed_out, None, f"{argv[0]}: the clock that ended it")
            true(result.code is not None, f"{argv[0]} has no exit code")


@table.promise("there is no terminal to grab, and nothing asks")
async def terminal(opener: OpenSandbox) -> None:
    script = "exec 3</dev/tty && echo GOT; echo $GIT_TERMINAL_PROMPT $PAGER $DEBIAN_FRONTEND $TZ"
    async with open_box(opener) as box:
        result = await box.exec(["bash", "-c", script])
        same(result.out.text, "0 cat noninteractive UTC\n", "what it sees")


@table.promise("silence has its own clock", "quiet")
async def silence(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        quiet = await box.exec(["sh", "-c", "echo A; sleep 30"], timeout_s=30, quiet_s=0.3)
        same((quiet.timed_out, quiet.out.text), ("no_output", "A\n"), "a silent command")
        chatty = "for i in 1 2 3 4 5 6; do sleep 0.1; echo $i; done"
        told = await box.exec(["sh", "-c", chatty], timeout_s=30, quiet_s=5)
        same((told.code, told.timed_out), (0, None), "one that speaks in between")


@table.promise("commands run beside each other")
async def beside(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        await box.exec(["mkfifo", "pipe"])
        reader, writer = await asyncio.gather(
            box.exec(["cat", "pipe"], timeout_s=20),
            box.exec(["sh", "-c", "echo through >pipe"], timeout_s=20),
        )
        same((reader.out.text, writer.code), ("through\n", 0), "reader and writer")


@table.promise("a cancelled command is ended")
async def cancelled(opener: OpenSandbox) -> None:
    nap = naptime()
    async with open_box(opener, counting(nap)) as box:
        pending = asyncio.create_task(box.exec(["sleep", nap], timeout_s=100))
        for _ in range(200):
            if await inside(box):
                break
        else:
            true(False, "the command did not start")
        pending.cancel()
        await asyncio.wait([pending])
        true(pending.cancelled(), "the call was not cancelled")
        for _ in range(200):
            if not await inside(box):
                break
        else:
            true(False, "the command still runs")
        same((await box.exec(["true"])).code, 0, "the next command")


@table.promise("@python runs a script as python3 would")
async def at_python(opener: OpenSandbox) -> None:
    script = b"""
import sys, os, atexit
sys.path and print(sys.argv[1:], __name__, os.path.basename(sys.path[0]), repr(sys.stdin.read()))
import helper
atexit.register(print, "at exit")
print(helper.__name__, __file__)
sys.exit(int(sys.argv[2]))
"""
    test = b"""
import unittest
class T(unittest.TestCase):
    def test_one(self): pass
    def test_two(self): self.fail("two")
unittest.main()
"""
    files = {"lib/a.py": script, "lib/helper.py": b"", "t.py": test, "boom.py": b"\n1/0\n"}
    files |= {"text.py": b"raise SystemExit('why')", "hard.py": b"import os; os._exit(9)"}
    async with open_box(opener, task(**files)) as box:
        result = await box.exec(["@python", "lib/a.py", "x", "4"])
        said = "['x', '4'] __main__ lib ''\nhelper lib/a.py\nat exit\n"
        same((result.code, result.out.text, result.err.text), (4, said, ""), "a script")
        result = await box.exec(["@python", "t.py"])
        same((result.code, "FAILED (failures=1)" in result.err.text), (1, True), "unittest")
        result = await box.exec(["@python", "boom.py"])
        same((result.code, result.err.text.startswith("Traceback")), (1, True), "an error")
        same(result.err.text.count("File "), 1, "frames in its traceback")
        true('boom.py", line 2' in result.err.text, "the traceback does not name the line")
        result = await box.exec(["@python", "text.py"])
        same((result.code, result.err.text), (1, "why\n"), "SystemExit with a text")
        same((await box.exec(["@python", "hard.py"])).code, 9, "os._exit")
        same((await box.exec(["@python", "missing.py"])).code, 2, "a script that is not there")


@table.promise("@python is ended like any command")
async def at_python_timeout(opener: OpenSandbox) -> None:
    nap = naptime()
    script = f"import subprocess; subprocess.run(['sleep', '{nap}'])".encode()
    async with open_box(opener, counting(nap, **{"hang.py": script})) as box:
        result = await box.exec(["@python", "hang.py"], timeout_s=0.7)
        same(result.timed_out, "total", "the clock that ended it")
        same(await inside(box), 0, "processes of it left")
