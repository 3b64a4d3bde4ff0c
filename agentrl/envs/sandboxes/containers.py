"""One container from create to removal, by the Docker daemon of this machine.

Its first process is our supervisor, which therefore is its init: it reaps every orphan, cannot be
killed from within, and ends with the stream its questions come through, so a container does not
outlive its harness. All calls here block.
"""

import json
import os
import secrets
import select
import signal
import socket
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct

from agentrl.envs.sandboxes.cgroup import Group
from agentrl.envs.sandboxes.files import Folder
from agentrl.errors import SandboxError, TaskError
from agentrl.task import SandboxSpec

LABEL = "agentrl"
OWNER = "agentrl.owner"
OVERHEAD = 1
"""Processes of ours in every container: the supervisor."""
SHARED_MB = 8
END_S = 10.0
_numbers = count()


class Plan(Struct, frozen=True):
    """All that decides how a container is made; two boxes of one plan are interchangeable."""

    image: str
    spec: SandboxSpec
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    read_only: tuple[tuple[str, str], ...]  # host path -> where it is in the box
    writable: tuple[str, ...]  # box paths that lie on the box's own disk
    tmpfs: tuple[tuple[str, str], ...]
    runtime: str | None


class Container:
    """A started container: its folder on the host, its stream, and the handle to end it by."""

    def __init__(self, api: Any, plan: Plan, folder: Folder) -> None:
        self._api = api
        self.folder = folder
        self.name = f"agentrl-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(4)}"
        self.stream: socket.socket | None = None
        self.group: Group | None = None
        self._watch: int | None = None
        self._started = False
        try:
            self._start(plan)
        except BaseException:
            self.end()
            raise

    def _start(self, plan: Plan) -> None:
        from docker.errors import DockerException

        for path in plan.writable:
            self.folder.place(_parts(path), None)
        if "/var/tmp" in plan.writable:
            (self.folder.path / "upper/var/tmp").chmod(0o1777)
        try:
            made = self._api.create_container(
                plan.image,
                name=self.name,
                entrypoint=list(plan.argv[:1]),
                command=list(plan.argv[1:]),
                user=f"{os.getuid()}:{os.getgid()}",
                working_dir="/",
                hostname="box",
                environment=dict(plan.environment),
                labels=labels(),
                stdin_open=True,
                host_config=self._api.create_host_config(**self._host_config(plan)),
            )
            self.stream = _attached(self._api, self.name)
            self._api.start(self.name)
            self._started = True
            state = self._api.inspect_container(self.name)["State"]
        except DockerException as error:
            raise _unstarted(error, plan) from error
        if state["Running"]:
            self._hold(int(state["Pid"]), made["Id"])

    def _host_config(self, plan: Plan) -> dict[str, Any]:
        from docker.types import LogConfig, Mount

        spec, upper = plan.spec, self.folder.path / "upper"
        own = [Mount(at, str(upper / at.lstrip("/")), "bind") for at in plan.writable]
        lent = [Mount(at, have, "bind", read_only=True) for have, at in plan.read_only]
        memory = spec.memory_mb << 20
        return {
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "read_only": not spec.writable_root,
            "pids_limit": spec.pids + OVERHEAD,
            "mem_limit": memory,
            "memswap_limit": memory,
            "nano_cpus": int(spec.cpus * 1e9),
            "shm_size": SHARED_MB << 20,
            "tmpfs": dict(plan.tmpfs),
            "mounts": [*own, *lent],
            "log_config": LogConfig(type="none"),  # the stream is ours, and binary
            "auto_remove": True,
            "runtime": plan.runtime,
        }

    def _hold(self, pid: int, number: str) -> None:
        """Get a handle on its first process, where that can be seen from here and is proven ours.

        The daemon may count processes otherwise than we do; the group's name tells them apart.
        """
        try:
            watch = os.pidfd_open(pid)
        except OSError:
            return
        try:
            group = Group.of(pid)
            if group.paths and all(number in path.name for path in group.directories):
                self._watch, self.group = watch, group
        except OSError:
            return  # it has ended already
        finally:
            if self._watch is None:
                os.close(watch)

    @property
    def alive(self) -> bool:
        """Whether its stream is open. Only while nobody reads from that yet."""
        if self.stream is None:
            return False
        try:
            return self.stream.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def kill(self) -> None:
        """End every process in it. The kernel ends a namespace before it reports its init dead."""
        from docker.errors import APIError

        if self._watch is not None:
            try:
                signal.pidfd_send_signal(self._watch, signal.SIGKILL)
                poll = select.poll()
                poll.register(self._watch, select.POLLIN)
                if poll.poll(END_S * 1_000):
                    return
            except ProcessLookupError:
                return
            except PermissionError:
                pass  # somebody else's process: the daemon may
        try:
            self._api.kill(self.name)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise SandboxError(f"container {self.name} cannot be killed: {error}") from error

    def end(self) -> None:
        """Kill it and remove its folder; again is no mistake.

        The daemon removes by itself what has once run.
        """
        try:
            if self.stream is not None:
                self.stream.close()
            self.kill()
            if not self._started:
                remove(self._api, self.name)
        finally:
            if self._watch is not None:
                os.close(self._watch)
                self._watch = None
            if self.folder.path.exists():
                self.folder.remove()


def remove(api: Any, name: str) -> None:
    """Remove a container, if nobody is at it already. Raises SandboxError."""
    from docker.errors import APIError

    try:
        api.remove_container(name, force=True, v=True)
    except APIError as error:
        if error.status_code not in (404, 409):  # gone, or going by itself
            raise SandboxError(f"container {name} cannot be removed: {error}") from error


def labels() -> dict[str, str]:
    return {LABEL: "box", OWNER: json.dumps(_identity(os.getpid()))}


def collect(api: Any) -> list[str]:
    """Remove the containers of ours whose harness is dead; their names."""
    removed = []
    for found in api.containers(all=True, filters={"label": [f"{LABEL}=box", OWNER]}):
        if _orphaned(found["Labels"][OWNER], running=found["State"] == "running"):
            remove(api, found["Id"])
            removed.append(found["Names"][0].lstrip("/"))
    return sorted(removed)


def _orphaned(owner: str, running: bool) -> bool:
    try:
        boot, space, pid, started = json.loads(owner)
        boot_now, space_now, *_ = _identity(os.getpid())
    except (ValueError, TypeError):
        return False  # not in our hand
    if boot != boot_now:
        return True
    if space != space_now:
        return not running  # its harness lives where we cannot look
    return bool(_identity(int(pid))[3] != started)


def _identity(pid: int) -> tuple[str, str, int, str]:
    """What names a process for ever: this boot, its pid namespace, its number, its start."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    space = os.readlink("/proc/self/ns/pid")
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return boot, space, pid, ""
    return boot, space, pid, stat.rpartition(")")[2].split()[19]


def _attached(api: Any, name: str) -> socket.socket:
    """The stream of a container that is yet to start, as a socket of our own."""
    lent = api.attach_socket(name, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    try:
        return socket.socket(fileno=os.dup(lent.fileno()))
    finally:
        getattr(lent, "_response", lent).close()  # the answer it belongs to closes both


def _unstarted(error: Exception, plan: Plan) -> SandboxError | TaskError:
    text = getattr(error, "explanation", None) or str(error)
    if "exec:" in text and ("not found" in text or "no such file" in text):
        return TaskError(
            f"the image has no {plan.argv[0]}, which boxes need",
            where=plan.image,
            help="install Python 3.9 or newer in the image",
        )
    if "bind source path does not exist" in text:
        return SandboxError(
            "the Docker daemon does not see this machine's files",
            help="use a daemon that runs on this machine, outside any virtual machine",
        )
    if "unknown or invalid runtime" in text.lower() or "no such runtime" in text.lower():
        text = f"the daemon has no runtime {plan.runtime}"
    return SandboxError(f"the container did not start: {text}", help="run `agentrl doctor`")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
