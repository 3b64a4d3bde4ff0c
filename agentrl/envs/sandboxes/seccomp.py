"""A filter on system calls: what no task needs and kernel faults like to live in.

Classic BPF over `struct seccomp_data` (call number at byte 0, architecture at 4, arguments from 16,
eight bytes each), assembled by hand so that no library is needed. Refused calls give EPERM.
"""

import errno
import os
import platform
import struct
from functools import cache

# name: (number on x86-64, number on arm64); arm64 lacks three of them
_REFUSED: dict[str, tuple[int, int | None]] = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "fanotify_init": (300, 262),
}
# machine: (column above, AUDIT_ARCH, numbers of clone, clone3, ioctl)
_MACHINES = {
    "x86_64": (0, 0xC000003E, 56, 435, 16),
    "aarch64": (1, 0xC00000B7, 220, 435, 29),
}
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
_NEW_USER_NAMESPACE = 0x10000000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into, or paste into, a terminal


@cache
def program(machine: str | None = None) -> bytes | None:
    """The filter for a processor, this one by default; None where we have no table for it."""
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    column, arch, clone, clone3, ioctl = known
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    code = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        refuse,
    ]
    for pair in _REFUSED.values():
        number = pair[column]
        if number is not None:
            code += [(_EQUAL, 0, 1, number), refuse]
    # glibc falls back to clone, whose flags are not behind a pointer
    code += [(_EQUAL, 0, 1, clone3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [
        (_EQUAL, 0, 4, clone),
        (_LOAD, 0, 0, 16),
        (_ANY_BIT, 0, 1, _NEW_USER_NAMESPACE),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, ioctl),
        (_LOAD, 0, 0, 24),
        (_EQUAL, 1, 0, _TIOCSTI),
        (_EQUAL, 0, 1, _TIOCLINUX),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def descriptor() -> int | None:
    """The filter in a file of its own, to be handed to a launcher and closed by the caller."""
    code = program()
    if code is None:
        return None
    fd = os.memfd_create("filter")
    os.write(fd, code)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
