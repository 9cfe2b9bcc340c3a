# SPDX-License-Identifier: Apache-2.0
"""Reads what the tests ask of 64-bit Mach-O files: symbols, the library each
one is bound to, load commands, a dylib's exports. Constants: <mach-o/loader.h>
and <mach-o/nlist.h>."""

import dataclasses
import mmap
import struct

MAGIC = 0xFEEDFACF
CPU_ARM64 = 0x0100000C
OBJECT, EXECUTE, DYLIB = 1, 2, 6

SYMTAB = 0x2
LOAD_DYLIB, ID_DYLIB = 0xC, 0xD
LOAD_WEAK_DYLIB, REEXPORT_DYLIB = 0x80000018, 0x8000001F
RPATH = 0x8000001C
DYLD_INFO, DYLD_INFO_ONLY = 0x22, 0x80000022
BUILD_VERSION = 0x32
DYLD_EXPORTS_TRIE = 0x80000033

STAB, TYPE, EXTERNAL, PRIVATE_EXTERNAL = 0xE0, 0x0E, 0x01, 0x10
UNDEFINED = 0x0
WEAK_REFERENCE = 0x40


@dataclasses.dataclass
class Symbol:
    name: str
    defined: bool  # tentative ones too
    # Of an undefined one in a linked file: the number, from 1, of the dylib
    # that it is bound to; 0 is the file itself, 254 any, 255 the program.
    library: int
    weak: bool


@dataclasses.dataclass
class File:
    cpu: int
    kind: int
    dylibs: list  # in the order of their numbers
    rpaths: list
    name: str  # of a dylib, for those that link it
    platform: int  # 1 is macOS; None where there is no mark
    minimum: tuple  # of its version
    symbols: list  # external ones
    exports: set  # a dylib's

    def undefined(self):
        return [s for s in self.symbols if not s.defined]

    def defined(self):
        return {s.name for s in self.symbols if s.defined}


def text_at(data, start):
    return bytes(data[start:data.find(b"\0", start)]).decode()


def uleb(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def trie(data):
    """Names in an exports trie."""
    names, todo = set(), [(0, b"")] if data else []
    while todo:
        at, name = todo.pop()
        size, at = uleb(data, at)
        if size:
            names.add(name.decode())
        at += size
        children, at = data[at], at + 1
        for _ in range(children):
            end = data.index(0, at)
            child, after = uleb(data, end + 1)
            todo.append((child, name + data[at:end]))
            at = after
    return names


def symbols(data, offset, count, strings):
    for number in range(count):
        name, kind, _, desc, _ = struct.unpack_from(
            "<IBBHQ", data, offset + 16 * number)
        if kind & STAB or not kind & EXTERNAL:
            continue
        undefined = kind & TYPE == UNDEFINED
        value = struct.unpack_from("<Q", data, offset + 16 * number + 8)[0]
        yield Symbol(text_at(data, strings + name),
                     not undefined or value != 0,
                     desc >> 8 & 0xFF, bool(desc & WEAK_REFERENCE))


def commands(data):
    count = struct.unpack_from("<I", data, 16)[0]
    at = 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        yield command, at
        at += size


def parse(data):
    magic, cpu, _, kind = struct.unpack_from("<IIII", data, 0)
    if magic != MAGIC:
        raise ValueError("is no 64-bit Mach-O file")
    file = File(cpu, kind, [], [], "", None, None, [], set())
    for command, at in commands(data):
        words = struct.unpack_from("<IIII", data, at + 8) if command else ()
        if command in (LOAD_DYLIB, LOAD_WEAK_DYLIB, REEXPORT_DYLIB):
            file.dylibs.append(text_at(data, at + words[0]))
        elif command == ID_DYLIB:
            file.name = text_at(data, at + words[0])
        elif command == RPATH:
            file.rpaths.append(text_at(data, at + words[0]))
        elif command == BUILD_VERSION:
            file.platform = words[0]
            file.minimum = (words[1] >> 16, words[1] >> 8 & 0xFF)
        elif command == SYMTAB:
            file.symbols = list(symbols(data, words[0], words[1], words[2]))
        elif command == DYLD_EXPORTS_TRIE:
            file.exports |= trie(bytes(data[words[0]:words[0] + words[1]]))
        elif command in (DYLD_INFO, DYLD_INFO_ONLY):
            start, size = struct.unpack_from("<II", data, at + 40)
            file.exports |= trie(bytes(data[start:start + size]))
    return file


def read(path):
    with open(path, "rb") as handle:
        with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(data)


def members(path):
    """(name, File) of each object in an archive, BSD's or GNU's kind."""
    with open(path, "rb") as handle:
        data = handle.read()
    if data[:8] != b"!<arch>\n":
        raise ValueError(f"{path} is no archive")
    at, long_names = 8, b""
    while at < len(data):
        name = data[at:at + 16].decode().strip()
        size = int(data[at + 48:at + 58])
        body = data[at + 60:at + 60 + size]
        at += 60 + size + size % 2
        if name.startswith("#1/"):
            length = int(name[3:])
            name, body = body[:length].rstrip(b"\0").decode(), body[length:]
        elif name == "//":
            long_names = body
            continue
        elif name[:1] == "/" and name[1:].isdigit():
            start = int(name[1:])
            name = long_names[start:long_names.index(b"\n", start)].decode()
        if body[:4] == struct.pack("<I", MAGIC):
            yield name.rstrip("/"), parse(body)
