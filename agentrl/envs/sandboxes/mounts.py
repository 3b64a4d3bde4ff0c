"""The harness's end of the process that mounts, see `holder`: one for each harness."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from agentrl.envs.sandboxes.rootfs import PYTHON
from agentrl.errors import NotReady, SandboxError

PROGRAM = Path(__file__).with_name("holder.py")
PACKET = 1 << 17
WAIT_S = 20.0


class Broken(SandboxError):
    """A box was changed by half: it cannot go on."""


class Holder:
    """Mounts on request. `private`: in a namespace of its own, which boxes must be started from.

    Raises NotReady where this machine does not allow that.
    """

    def __init__(self, private: bool) -> None:
        self.private = private
        self._lock = threading.Lock()
        if private and shutil.which("nsenter") is None:
            raise NotReady("sized disks need nsenter, and there is none", help="install util-linux")
        self._wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._wire.settimeout(WAIT_S)
        mode = "private" if private else "plain"
        try:
            self._popen = subprocess.Popen(
                [PYTHON, "-I", "-S", "-B", str(PROGRAM), mode],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self._wire.close()
            raise NotReady(f"the process that mounts did not start: {error}") from error
        finally:
            theirs.close()
        trouble = self._answer().get("failed")
        if trouble:
            self.close()
            raise NotReady(
                f"no user namespace to mount in: {trouble}",
                help="allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
            )

    @property
    def prefix(self) -> list[str]:
        """What a command begins with to see what is mounted here."""
        if not self.private:
            return []
        target = str(self._popen.pid)
        return ["nsenter", "--target", target, "--user", "--mount", "--preserve-credentials", "--"]

    def seen(self, path: Path) -> Path:
        """Where the harness itself finds what is mounted at `path`."""
        return Path(f"/proc/{self._popen.pid}/root{path}") if self.private else path

    def mount(self, path: Path, options: str) -> None:
        """A tmpfs. Raises SandboxError."""
        self._ask(do="mount", path=str(path), options=options)

    def unmount(self, path: Path) -> None:
        self._ask(do="unmount", path=str(path))

    def swap(
        self, pid: int, owner: tuple[int, int] | None, lower: list[Path], folder: Path
    ) -> None:
        """Give the quiet box of process `pid` the upper layer in `folder` over `lower`.

        Raises SandboxError, the box being as it was, or Broken, when it must be closed.
        """
        self._ask(
            do="swap", pid=pid, owner=owner, lower=[str(path) for path in lower], folder=str(folder)
        )

    def _ask(self, **request: Any) -> None:
        packet = json.dumps(request).encode()
        if len(packet) > PACKET:
            raise SandboxError(f"too many layers to mount: {len(packet)} bytes of names")
        with self._lock:
            try:
                self._wire.send(packet)
                told = self._answer()
            except OSError as error:
                self.close()
                raise Broken(f"the process that mounts does not answer: {error}") from error
        if "failed" in told:
            kind = Broken if told.get("broken") else SandboxError
            raise kind(f"mounting failed: {told['failed']}")

    def _answer(self) -> dict[str, Any]:
        packet = self._wire.recv(PACKET)
        if not packet:
            return {"failed": "the process that mounts has ended", "broken": True}
        told: dict[str, Any] = json.loads(packet)
        return told

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def close(self) -> None:
        self._wire.close()
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()


_holders: dict[tuple[int, bool], Holder] = {}


def holder(private: bool) -> Holder:
    """This process's, started at the first call. Raises NotReady."""
    key = (os.getpid(), private)
    found = _holders.get(key)
    if found is not None and not found.alive:
        found.close()
        found = None
    if found is None:
        found = _holders[key] = Holder(private)
    return found


def _close() -> None:
    for (pid, _), found in _holders.items():
        if pid == os.getpid():
            found.close()


atexit.register(_close)
