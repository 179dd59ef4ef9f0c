"""A program of a few hundred bytes per ABI that prints a nonce: the proof that a device executes what it is given.

Hand-assembled static ELF files: ``write(1, nonce, length); exit(0)``. They need no tool chain and no
libc, so that preflight tests the device and nothing else. Sources: System V ABI supplements of the
four architectures, Linux system call numbers.
"""

from __future__ import annotations

import struct

from engine.contract.errors import UnsupportedError

_BASE = 0x400000


def tiny_program(abi: str, nonce: str) -> bytes:
    """ELF image that prints ``nonce`` and a line feed; ``abi`` as in ``devices.yaml``."""
    message = nonce.encode() + b"\n"
    family = next((name for name in _FAMILIES if abi.startswith(name)), None)
    if family is None:
        raise UnsupportedError(
            f"no preflight program for ABI {abi!r}", hint=f"known ABI families: {', '.join(_FAMILIES)}"
        )
    machine, bits, flags, assemble = _FAMILIES[family]
    code = assemble(len(message))
    header_size = 64 + 56 if bits == 64 else 52 + 32
    size = header_size + len(code) + len(message)
    entry = _BASE + header_size
    header = _header64 if bits == 64 else _header32
    return header(machine, flags, entry, size) + code + message


def _header64(machine: int, flags: int, entry: int, size: int) -> bytes:
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    elf = ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, entry, 64, 0, flags, 64, 56, 1, 0, 0, 0)
    return elf + struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x10000)


def _header32(machine: int, flags: int, entry: int, size: int) -> bytes:
    ident = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
    elf = ident + struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, entry, 52, 0, flags, 52, 32, 1, 0, 0, 0)
    return elf + struct.pack("<IIIIIIII", 1, 0, _BASE, _BASE, size, size, 5, 0x10000)


def _x86_64(length: int) -> bytes:
    tail = bytes([0xB8]) + struct.pack("<I", 60) + b"\x31\xff\x0f\x05"  # mov eax,60; xor edi,edi; syscall
    middle = bytes([0xBA]) + struct.pack("<I", length) + b"\x0f\x05"  # mov edx,length; syscall
    lea = b"\x48\x8d\x35" + struct.pack("<i", len(middle) + len(tail))  # lea rsi,[rip+…]
    return b"\xb8\x01\x00\x00\x00\xbf\x01\x00\x00\x00" + lea + middle + tail  # mov eax,1; mov edi,1


def _arm64(length: int) -> bytes:
    movz = 0xD2800000
    words = [
        movz | 1 << 5,  # mov x0, #1
        0x10000000 | 7 << 5 | 1,  # adr x1, .+28 (the message follows the code)
        movz | length << 5 | 2,  # mov x2, #length
        movz | 64 << 5 | 8,  # mov x8, #64 (write)
        0xD4000001,  # svc #0
        movz,  # mov x0, #0
        movz | 93 << 5 | 8,  # mov x8, #93 (exit)
        0xD4000001,  # svc #0
    ]
    return struct.pack("<8I", *words)


def _armv7(length: int) -> bytes:
    words = [
        0xE3A00001,  # mov r0, #1
        0xE28F1014,  # add r1, pc, #20 (pc reads two instructions ahead)
        0xE3A02000 | length,  # mov r2, #length
        0xE3A07004,  # mov r7, #4 (write)
        0xEF000000,  # svc #0
        0xE3A00000,  # mov r0, #0
        0xE3A07001,  # mov r7, #1 (exit)
        0xEF000000,  # svc #0
    ]
    return struct.pack("<8I", *words)


def _riscv64(length: int) -> bytes:
    def addi(target: int, source: int, value: int) -> int:
        return 0x13 | target << 7 | source << 15 | value << 20

    words = [
        addi(10, 0, 1),  # li a0, 1
        0x17 | 11 << 7,  # auipc a1, 0
        addi(11, 11, 32),  # addi a1, a1, 32 (eight instructions from the auipc to the message)
        addi(12, 0, length),  # li a2, length
        addi(17, 0, 64),  # li a7, 64 (write)
        0x73,  # ecall
        addi(10, 0, 0),  # li a0, 0
        addi(17, 0, 93),  # li a7, 93 (exit)
        0x73,  # ecall
    ]
    return struct.pack("<9I", *words)


#: ABI prefix -> (ELF machine, word size, ELF flags, code generator). Longest prefixes first.
_FAMILIES = {
    "x86-64": (62, 64, 0, _x86_64),
    "arm64": (183, 64, 0, _arm64),
    "armv7": (40, 32, 0x05000400, _armv7),
    "riscv64": (243, 64, 0x5, _riscv64),
}
