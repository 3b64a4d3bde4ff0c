"""Write down what is in a folder; a script for inside a box that needs nothing but Python.

python statecheck.py FOLDER OUT.json: OUT maps every path below FOLDER to `{"type", "mode"}` and,
for a regular file, `size`, `sha256` and, up to 64 KiB, its text (U+FFFD for what is no UTF-8).
"""

import hashlib
import json
import os
import stat
import sys

TEXT_BYTES = 65_536
ENTRIES = 20_000


def facts(path: str) -> dict[str, object]:
    """What is at `path`; links are not followed."""
    status = os.lstat(path)
    seen: dict[str, object] = {"mode": stat.S_IMODE(status.st_mode)}
    if stat.S_ISDIR(status.st_mode):
        if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        return seen | {"type": "dir"}
    if not stat.S_ISREG(status.st_mode):
        return seen | {"type": "link" if stat.S_ISLNK(status.st_mode) else "other"}
    if not status.st_mode & stat.S_IRUSR:  # its owner, who we are here, took that right away
        os.chmod(path, stat.S_IMODE(status.st_mode) | stat.S_IRUSR)
    digest, text = hashlib.sha256(), b""
    with open(path, "rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
            if status.st_size <= TEXT_BYTES:
                text += chunk
    seen |= {"type": "file", "size": status.st_size, "sha256": digest.hexdigest()}
    if status.st_size <= TEXT_BYTES:
        seen["text"] = text.decode("utf-8", "replace")
    return seen


def survey(folder: str) -> dict[str, object]:
    """Facts of everything below `folder`, at most ENTRIES; `more` says that there was more."""
    found: dict[str, object] = {}
    for at, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            if len(found) == ENTRIES:
                return {"found": found, "more": True}
            path = os.path.join(at, name)
            shown = os.path.relpath(path, folder).encode("utf-8", "surrogateescape")
            found[shown.decode("utf-8", "replace")] = facts(path)
    return {"found": found, "more": False}


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="ascii") as out:
        json.dump(survey(sys.argv[1]), out)
