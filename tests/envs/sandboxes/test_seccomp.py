"""The filter, run instruction by instruction as the kernel would."""

import errno
import struct

import pytest

from agentrl.envs.sandboxes.seccomp import program

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
X86, ARM = 0xC000003E, 0xC00000B7


def decide(code: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the filter returns for a call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, arch, 0, *padded)
    at = accumulator = 0
    for _ in range(1_000):
        operation, yes, no, value = struct.unpack_from("=HBBI", code, at * 8)
        at += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif operation == 0x15:
            at += yes if accumulator == value else no
        elif operation == 0x35:
            at += yes if accumulator >= value else no
        else:
            assert operation == 0x45
            at += yes if accumulator & value else no
    raise AssertionError("does not end")


@pytest.mark.parametrize(
    ("machine", "arch", "refused", "allowed", "clone", "ioctl"),
    [
        ("x86_64", X86, (101, 165, 272, 321, 425, 438), (0, 1, 59, 231, 257), 56, 16),
        ("aarch64", ARM, (40, 97, 117, 280, 425, 438), (56, 63, 64, 93, 221), 220, 29),
    ],
)
def test_each_processor_refuses_the_dangerous_and_allows_the_ordinary(
    machine: str,
    arch: int,
    refused: tuple[int, ...],
    allowed: tuple[int, ...],
    clone: int,
    ioctl: int,
) -> None:
    code = program(machine)
    assert code is not None
    eperm = ERRNO | errno.EPERM
    assert {decide(code, arch, number) for number in refused} == {eperm}
    assert {decide(code, arch, number) for number in allowed} == {ALLOW}
    assert decide(code, arch, clone, 0x11) == ALLOW
    assert decide(code, arch, clone, 0x10000011) == eperm
    assert decide(code, arch, 435) == ERRNO | errno.ENOSYS
    assert decide(code, arch, ioctl, 0, 0x5401) == ALLOW
    assert decide(code, arch, ioctl, 0, 0x5412) == eperm
    assert decide(code, arch, ioctl, 0, 0x541C) == eperm
    assert decide(code, 0x40000003, 1) == KILL
    assert decide(code, arch, 0x40000000 + 1) == eperm


def test_an_unknown_processor_has_no_filter_rather_than_a_wrong_one() -> None:
    assert program("riscv64") is None
