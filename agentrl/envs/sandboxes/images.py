"""Docker images: the host's /usr as one, a task's Dockerfile built once, and what a workdir holds.

Nothing is pulled: an image is here, is built here, or the task is refused.
"""

import io
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

from msgspec import Struct

from agentrl.envs.sandboxes.containers import LABEL, labels
from agentrl.envs.sandboxes.rootfs import Base
from agentrl.errors import SandboxError, TaskError
from agentrl.task import SandboxSpec

HOST = "agentrl-host"
BUILD_S = 600.0
_KEPT = 8
_TOLD = 12  # lines of a failed build's output that are shown

Entry = tuple[int, bytes | None] | str
"""A file's mode and bytes, a directory's mode and None, or where a link points."""


class Image(Struct, frozen=True):
    """An image boxes can start from; `usr` where the host's own is to be mounted in it."""

    id: str
    name: str
    usr: bool = False


class Images:
    """The images of one daemon. Safe to use from several threads; each is built or read once."""

    def __init__(self, api: Any, build_network: str | None) -> None:
        self._api = api
        self._network = build_network
        self._lock = threading.Lock()
        self._known: dict[str, Image] = {}
        self._contents: dict[tuple[str, str], dict[str, Entry]] = {}

    def host(self, base: Base) -> Image:
        """The small root that borrows the host's /usr, imported where it is not there yet."""
        name = f"{HOST}:{base.digest[:16]}"
        with self._lock:
            if name not in self._known:
                if self._find(name) is None:
                    self._api.import_image_from_data(
                        _packed(base.root),
                        repository=HOST,
                        tag=base.digest[:16],
                        changes=[f"LABEL {LABEL}=image"],
                    )
                self._known[name] = Image(self._find(name) or name, name, usr=True)
            return self._known[name]

    def of(self, spec: SandboxSpec) -> Image:
        """The image a task names, built from its `build` folder if need be. Raises TaskError."""
        name = spec.image or ""
        with self._lock:
            if name not in self._known:
                found = self._find(name)
                if found is None and spec.build is not None:
                    self._build(name, Path(spec.build))
                    found = self._find(name)
                if found is None:
                    raise TaskError(
                        f"this Docker daemon has no image {name}",
                        where="sandbox.image",
                        help=f"`docker pull {name}` or build it; a run itself fetches nothing",
                    )
                self._known[name] = Image(found, name)
            return self._known[name]

    def _find(self, name: str) -> str | None:
        from docker.errors import ImageNotFound

        try:
            return str(self._api.inspect_image(name)["Id"])
        except ImageNotFound:
            return None

    def _build(self, name: str, folder: Path) -> None:
        from docker.errors import APIError, DockerException

        where = str(folder / "Dockerfile")
        said: list[str] = []
        try:
            steps = self._api.build(
                path=str(folder),
                tag=name,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=BUILD_S,
                labels={LABEL: "image"},
                network_mode=self._network,
            )
            for step in steps:
                said += str(step.get("stream", "")).splitlines()
                if "error" in step:
                    raise _unbuilt(where, step["error"], said)
        except (APIError, TypeError) as error:  # TypeError: no folder to build from
            text = getattr(error, "explanation", None) or str(error)
            raise _unbuilt(where, text, said) from error
        except (DockerException, OSError) as error:
            raise SandboxError(f"the Docker daemon broke off a build: {error}") from error

    def content(self, image: Image, workdir: str, disk_mb: int) -> dict[str, Entry]:
        """What the image has in a task's workdir, by path relative to it. Raises TaskError."""
        key = (image.id, workdir)
        with self._lock:
            if key not in self._contents:
                if len(self._contents) >= _KEPT:
                    del self._contents[next(iter(self._contents))]
                self._contents[key] = {} if image.usr else self._read(image, workdir, disk_mb)
            return self._contents[key]

    def _read(self, image: Image, workdir: str, disk_mb: int) -> dict[str, Entry]:
        from docker.errors import NotFound

        made = self._api.create_container(image.id, ["-"], labels=labels())
        try:
            stream, _ = self._api.get_archive(made["Id"], workdir)
            data = bytearray()
            for chunk in stream:
                data += chunk
                if len(data) > disk_mb << 20:
                    raise TaskError(
                        f"the image's {workdir} is larger than the task's disk, {disk_mb} MB",
                        where=image.name,
                        help="raise [environment] storage_mb, or build less into the workdir",
                    )
        except NotFound:
            return {}
        finally:
            self._api.remove_container(made["Id"], force=True)
        return _entries(bytes(data))


def _unbuilt(where: str, reason: str, said: list[str]) -> TaskError:
    output = "".join(f"\n    {line}" for line in [line for line in said if line.strip()][-_TOLD:])
    return TaskError(
        f"the task's Dockerfile does not build: {reason.strip()}",
        where=where,
        help=f"mend it; `docker build {os.path.dirname(where)}` shows the same"
        + (f". It said:{output}" if output else ""),
    )


def _entries(data: bytes) -> dict[str, Entry]:
    """A tar of one folder as paths below it; devices, pipes and hard links' twins as files."""
    found: dict[str, Entry] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = member.name.partition("/")[2].strip("/")
            if not path:
                continue
            if member.isdir():
                found[path] = (member.mode, None)
            elif member.issym():
                found[path] = member.linkname
            elif member.isreg() or member.islnk():
                file = archive.extractfile(member)
                found[path] = (member.mode, file.read() if file is not None else b"")
    return found


def _packed(root: Path) -> bytes:
    """A folder as a tar that belongs to root."""

    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, arcname=".", filter=owned)
    return buffer.getvalue()
