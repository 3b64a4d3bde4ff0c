#!/usr/bin/python3 -IS
"""Run a program that reaches neither /tests nor /logs: `confined ./program ARGS`.

By Landlock: it may read and execute the system's folders, do what it likes in the workdir and
/tmp, and nothing else; nor may it look into a process outside. Where the kernel has no Landlock
it is not run at all: exit status 126 and a line that says so.
"""

import ctypes
import os
import sys

CREATE, ADD, RESTRICT = 444, 445, 446  # the same on x86-64 and arm64
NO_NEW_PRIVS, DUMPABLE = 38, 4
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
RIGHTS = (1 << 13) - 1  # what Landlock's first version knows
LATER = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
READ_ONLY = EXECUTE | READ_FILE | READ_DIR
SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc", "/opt", "/proc", "/sys")
OWN = ("/tmp", "/dev", "/var/tmp", "/root")


class Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def confine(workdir: str) -> str:
    """Confine this process for good; what kept it from that, or nothing."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(CREATE, None, 0, 1)
    if version < 1:
        return f"the kernel has no Landlock ({os.strerror(ctypes.get_errno())})"
    rights = RIGHTS
    for since, more in LATER.items():
        rights |= more if version >= since else 0
    rules = Ruleset(rights, 0, 2 if version >= 6 else 0)  # scoped 2: no signals to the outside
    size = ctypes.sizeof(rules) if version >= 6 else 16 if version >= 4 else 8
    ruleset = call(CREATE, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        return f"no Landlock ruleset: {os.strerror(ctypes.get_errno())}"
    for folder in (*SYSTEM, *OWN, workdir):
        try:
            fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        allowed = READ_ONLY if folder in SYSTEM else rights
        beneath = Beneath(allowed, fd)
        if call(ADD, ruleset, 1, ctypes.byref(beneath), 0) != 0:
            return f"no rule for {folder}: {os.strerror(ctypes.get_errno())}"
        os.close(fd)
    ctypes.CDLL(None).prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    if call(RESTRICT, ruleset, 0) != 0:
        return f"not confined: {os.strerror(ctypes.get_errno())}"
    os.close(ruleset)
    return ""


def main() -> None:
    program = sys.argv[1:]
    trouble = confine(os.getcwd()) if program else "no program given"
    if trouble:
        print(f"confined: {trouble}", file=sys.stderr)
        sys.exit(126)
    for name in ("CONFINED", "TEST_DIR"):
        os.environ.pop(name, None)
    try:
        os.execvp(program[0], program)
    except OSError as error:
        print(f"confined: {program[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
