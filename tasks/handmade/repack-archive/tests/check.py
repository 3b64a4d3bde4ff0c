import os
import tarfile

WANT = {
    "app-1.2/README": b"read me\n",
    "app-1.2/docs/guide one.md": b"guide\n",
    "app-1.2/src/main.py": b"print('hi')\n",
}
KEPT = {"README", "docs/guide one.md", "docs/guide one.md.bak", "src/main.py", "src/main.py.bak"}
KEPT |= {"tmp files/cache"}

with tarfile.open("release.tar.gz", "r:gz") as archive:
    members = {member.name.removeprefix("./"): member for member in archive if not member.isdir()}
    fine = all(member.isreg() and member.size < 1000 for member in members.values())
    got = {n: archive.extractfile(m).read() for n, m in members.items()} if fine else {}
    folders = [m.name.removeprefix("./") for m in archive if m.isdir()]
fine = fine and all((name + "/").startswith("app-1.2/") for name in folders)
fine = fine and not any("tmp files" in name for name in folders)
lines = open("manifest.txt").read().splitlines()
left = {os.path.relpath(os.path.join(at, n), "release") for at, _, ns in os.walk("release") for n in ns}
print(int(fine and got == WANT and lines == sorted(WANT) and left == KEPT))
