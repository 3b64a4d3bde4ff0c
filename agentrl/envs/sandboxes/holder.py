"""A small process beside the harness that mounts; having one thread, it may enter namespaces.

Run as a program (standard library only, Python 3.9 or newer), it serves requests on its standard
input and ends with it. Started as `private`, it first makes itself a user and a mount namespace,
where anybody may mount; what it has mounted is gone when it and the boxes started from there have
ended.

Each request is one JSON packet, `{"do": "mount" | "unmount" | "swap", ...}`. The answer is `{}`, or
`{"failed": what, "broken": true where a box was changed by half}`.
"""

import ctypes
import fcntl
import json
import os
import signal
import socket
import sys

NEWNS, NEWUSER = 0x00020000, 0x10000000
RDONLY, NOSUID, NODEV, REMOUNT, BIND, DETACH = 1, 2, 4, 32, 4096, 2
PRIVATE = 0x40000 | 0x4000  # MS_PRIVATE | MS_REC
GET_USERNS = 0xB701
OPEN_TREE, MOVE_MOUNT = 428, 429  # since Linux 5.2, alike everywhere
PIVOT_ROOT = 155 if os.uname().machine == "x86_64" else 41
CLONE_TREE = 0x80001  # OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC
FROM_FD = 4  # MOVE_MOUNT_F_EMPTY_PATH
HERE = -100  # AT_FDCWD
MOVED = (b"usr", b"proc", b"dev", b"run")
"""What `launch.bubblewrap` mounts in a box's root."""
PACKET = 1 << 17

libc = ctypes.CDLL(None, use_errno=True)


def call(what: str, name: "str | int", *arguments: object) -> int:
    """A libc function by its name, or a system call by its number. Raises OSError naming `what`."""
    if isinstance(name, int):
        result: int = libc.syscall(ctypes.c_long(name), *arguments)
    else:
        result = getattr(libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


class Swap:
    """Gives a live box a fresh upper layer over `lower`, layers of which the last is the base.

    `pid` is the box's first process. Nothing in the box may run meanwhile, and no process may stay
    but the first and those that will change directory afterwards: who has a directory of the old
    root goes on seeing that one, read-only.
    """

    def __init__(
        self, pid: int, owner: "list[int] | None", lower: "list[str]", folder: str
    ) -> None:
        self.pid = pid
        self.owner = owner
        self.lower = lower
        self.folder = folder
        self.touched = False

    def run(self) -> None:
        if self.owner:  # the box's namespace obeys the user it was started by
            os.setgroups([])
            os.setresgid(self.owner[1], self.owner[1], self.owner[1])
            os.setresuid(self.owner[0], self.owner[0], self.owner[0])
        space = os.open(f"/proc/{self.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        call("enter user", "setns", fcntl.ioctl(space, GET_USERNS), NEWUSER)
        call("unshare", "unshare", NEWNS)  # a copy of the host's mounts, to name the layers in
        os.open("/proc/self/ns/mnt", os.O_RDONLY)  # kept to the end: taking it down takes long
        root = self.mounted()
        call("enter mounts", "setns", space, NEWNS)
        frozen = REMOUNT | BIND | RDONLY | NOSUID | NODEV
        call("freeze (is a file open for writing?)", "mount", None, b"/", None, frozen, None)
        self.touched = True
        # Mounted over the old root, below which absolute paths still begin.
        call("attach", MOVE_MOUNT, root, b"", HERE, b"/", FROM_FD)
        for name in MOVED:
            call("move", MOVE_MOUNT, HERE, b"/" + name, root, name, 0)
        os.fchdir(root)
        call("pivot", PIVOT_ROOT, b".", b".")
        call("detach", "umount2", b".", DETACH)

    def mounted(self) -> int:
        """A descriptor of the new root. Links one to three characters long stand for the layers:
        mount(2) takes one page of options, into which hundreds of those go."""
        at = f"{self.folder}/at"
        call("mount links", "mount", b"links", at.encode(), b"tmpfs", NOSUID | NODEV, None)
        os.chdir(at)
        for number, layer in enumerate(self.lower):
            os.symlink(layer, str(number))
        os.mkdir("root")
        lower = ":".join(map(str, range(len(self.lower))))
        upper = f"upperdir={self.folder}/upper,workdir={self.folder}/work"
        options = f"lowerdir={lower},{upper},userxattr".encode()
        call("mount overlay", "mount", b"overlay", b"root", b"overlay", NOSUID | NODEV, options)
        return call("open tree", OPEN_TREE, HERE, b"root", CLONE_TREE)


def swap(
    pid: int, owner: "list[int] | None", lower: "list[str]", folder: str
) -> "dict[str, object]":
    """In a child: there is no way back out of a user namespace. Its end, which takes the copied
    mounts down with it, is not waited for."""
    ears, mouth = os.pipe()
    if not os.fork():
        work = Swap(pid, owner, lower, folder)
        told = b"failed: the child that swaps ended early"
        try:
            work.run()
            told = b"done"
        except OSError as error:
            told = f"failed: {error.filename}: {error.strerror}".encode()
        finally:
            os.write(mouth, (b"broken, " if work.touched and told != b"done" else b"") + told)
            os._exit(0)
    os.close(mouth)
    try:
        told = os.read(ears, 4096)
    finally:
        os.close(ears)
    if told == b"done":
        return {}
    return {"failed": told.decode() or "killed", "broken": not told.startswith(b"failed")}


def serve(request: "dict[str, object]") -> "dict[str, object]":
    do = request.pop("do")
    try:
        if do == "swap":
            return swap(**request)  # type: ignore[arg-type]
        path = str(request["path"]).encode()
        if do == "mount":
            options = str(request["options"]).encode()
            call("mount", "mount", b"agentrl", path, b"tmpfs", NOSUID | NODEV, options)
        else:
            call("unmount", "umount2", path, DETACH)
    except OSError as error:
        return {"failed": f"{error.filename}: {error.strerror}", "broken": False}
    return {}


def settle() -> None:
    """Into a user namespace in which the caller is still the caller, but may mount."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", "unshare", NEWUSER | NEWNS)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    call("make private", "mount", None, b"/", None, PRIVATE, None)


def main(mode: str) -> None:
    wire = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no child has to be waited for
    hello: dict[str, object] = {}
    if mode == "private":
        try:
            settle()
        except OSError as error:
            hello = {"failed": f"{error.filename}: {error.strerror}"}
    wire.send(json.dumps(hello).encode())
    while True:
        packet = wire.recv(PACKET)
        if not packet:
            return
        wire.send(json.dumps(serve(json.loads(packet))).encode())


if __name__ == "__main__":
    main(sys.argv[1])
