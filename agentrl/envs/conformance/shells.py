"""Promises of the persistent shell."""

import asyncio

from agentrl.envs.conformance.kit import (
    Table,
    counting,
    inside,
    naptime,
    open_box,
    same,
    task,
    true,
)
from agentrl.envs.sandbox import OpenSandbox

table = Table()


@table.promise("the shell remembers and single commands do not", "shell")
async def remembers(opener: OpenSandbox) -> None:
    async with open_box(opener, task(**{"d/x": b""})) as box:
        await box.exec(["sh", "-c", "cd d && export A=1"])
        await box.shell('cd d; export A=1; f() { echo "f $A"; }')
        same((await box.shell('basename "$PWD"; f')).out.text, "d\nf 1\n", "the shell")
        alone = await box.exec(["sh", "-c", 'basename "$PWD"; echo "[$A]"'])
        same(alone.out.text, "workspace\n[]\n", "a single command")
        heredoc = "cat <<'EOF'\nit's \"quoted\" $A\nEOF"
        same((await box.shell(heredoc)).out.text, 'it\'s "quoted" $A\n', "a heredoc")
        true((await box.shell("echo 'unfinished")).code != 0, "an open quote passed as success")
        same((await box.shell("( exit 5 )")).code, 5, "exit code of a subshell")
        same((await box.shell("echo late >&2; false")).err.text, "late\n", "stderr")


@table.promise("a shell that ends is started again and says so", "shell")
async def ends(opener: OpenSandbox) -> None:
    ways = {"exit 3": 3, "exec true": 0, "kill $$": 143, "set -e; false": 1, "kill -9 $$": 137}
    async with open_box(opener) as box:
        for command, code in ways.items():
            await box.shell("cd /; A=1")
            result = await box.shell(command)
            same((result.code, result.restarted), (code, True), f"`{command}`")
            after = await box.shell('basename "$PWD"; echo "[$A]"')
            fresh = ("workspace\n[]\n", False)
            same((after.out.text, after.restarted), fresh, f"the shell after `{command}`")


@table.promise("a shell that died unseen is reported by the next command", "shell")
async def died(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        pid = (await box.shell("echo $$")).out.text.strip()
        same((await box.exec(["kill", "-9", pid])).code, 0, "killing it")
        result = await box.shell("echo back")
        same((result.out.text, result.restarted), ("back\n", True), "the next command")


@table.promise("a hanging command is ended and the shell goes on", "shell")
async def hangs(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        await box.shell("A=1")
        result = await box.shell("echo A; sleep 60", timeout_s=0.4)
        same((result.code, result.timed_out, result.out.text), (None, "total", "A\n"), "result")
        same(result.restarted, False, "whether the shell was lost")
        same((await box.shell("echo $A")).out.text, "1\n", "what it remembers")


@table.promise("a busy loop in the shell costs the shell, not the box", "shell")
async def busy(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        result = await box.shell("trap '' INT TERM; while :; do :; done", timeout_s=0.3)
        told = (result.code, result.timed_out, result.restarted)
        same(told, (None, "total", True), "the loop's end")
        same((await box.shell("echo again")).out.text, "again\n", "the next command")


@table.promise("a job of an earlier command survives a later timeout", "shell")
async def job(opener: OpenSandbox) -> None:
    nap = naptime()
    async with open_box(opener, counting(nap)) as box:
        await box.shell(f"sleep {nap} &")
        await asyncio.sleep(0.05)
        same((await box.shell("sleep 60", timeout_s=0.2)).timed_out, "total", "in the shell")
        same((await box.exec(["sleep", "60"], timeout_s=0.2)).timed_out, "total", "beside it")
        same(await inside(box), 1, "jobs left")


@table.promise("the shell has no terminal either, and its silence has its own clock", "shell")
async def quiet(opener: OpenSandbox) -> None:
    async with open_box(opener) as box:
        same((await box.shell("( exec 3</dev/tty ) && echo GOT; true")).out.text, "", "a terminal")
        result = await box.shell("echo A; sleep 30", timeout_s=30, quiet_s=0.3)
        same((result.timed_out, result.out.text), ("no_output", "A\n"), "a silent command")
