# SPDX-License-Identifier: Apache-2.0
"""Small safetensors files, sound and broken, and what the reference reader
says of each: headers.json."""

import base64
import copy
import json
import random
import struct

import safetensors

SOUND = {
    "pair": {"__metadata__": {"format": "pt"},
             "a": ["F32", [2], [0, 8]], "b": ["BF16", [2, 3], [8, 20]]},
    "odd": {"b": ["U8", [3], [0, 3]], "a": ["F16", [1], [3, 5]],
            "none": ["F32", [0, 4], [5, 5]], "c": ["I64", [], [5, 13]]},
    "new": {"q": ["U32", [2], [0, 8]], "e": ["F8_E4M3", [4], [8, 12]],
            "f": ["F4", [2, 3], [12, 15]], "g": ["F6_E2M3", [4], [15, 18]]},
}
BROKEN = [
    b"", b"\x01", b"{}", b"[]", b"null", b"{", b"{}\x00", b" {} ", b"\xef\xbb\xbf{}",
    b'{"__metadata__":null}', b'{"__metadata__":{"a":1}}', b'{"__metadata__":"x"}',
    b'{"__metadata__":[]}', b'{"x":null}', b'{"x":3}', b'{"x":{}}', b'{"\xff":{}}',
    b'{"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}}',
    b'{"x":{"dtype":"U8","shape":[1.0],"data_offsets":[0,0]}}',
    b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}}',
    b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0]}}',
    b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"more":[{}]}}',
    b'{"x":{"dtype":"F4","shape":[1],"data_offsets":[0,0]}}',
    b'{"x":{"dtype":"U8","shape":[18446744073709551615,2],"data_offsets":[0,0]}}',
    b'{"x":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}}',
    b'{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"z":'
    + b"[" * 200 + b"]" * 200 + b"}}",
]
NUMBERS = [-1, 0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 20, 21, 1 << 32, (1 << 63) - 1]
DTYPES = ["F32", "BF16", "F16", "I64", "U8", "BOOL", "U16", "C64", "F8_E5M2"]


def file_of(header, data):
    return struct.pack("<Q", len(header)) + header + data


def spelled(tensors):
    named = {name: value if name == "__metadata__" else dict(
        dtype=value[0], shape=value[1], data_offsets=value[2])
        for name, value in tensors.items()}
    return json.dumps(named, separators=(",", ":")).encode()


def size_of(tensors):
    return max(value[2][1] for name, value in tensors.items()
               if name != "__metadata__")


def changed(tensors, draw):
    """One value of one tensor is another."""
    tensors = copy.deepcopy(tensors)
    name = draw.choice([n for n in tensors if n != "__metadata__"])
    entry = tensors[name]
    which = draw.randrange(6)
    if which == 0:
        entry[0] = draw.choice(DTYPES)
    elif which == 1:
        entry[1].insert(draw.randrange(len(entry[1]) + 1), draw.choice(NUMBERS))
    elif which == 2 and entry[1]:
        entry[1][draw.randrange(len(entry[1]))] = draw.choice(NUMBERS)
    elif which == 3:
        step = draw.choice([-8, -1, 1, 2, 8])
        entry[2] = [entry[2][0] + step, entry[2][1] + step]
    elif which == 4:
        tensors[name] = copy.deepcopy(
            draw.choice([v for n, v in tensors.items() if n != "__metadata__"]))
    else:
        entry[2][draw.randrange(2)] = draw.choice(NUMBERS)
    return tensors


def scratched(data, draw):
    """One byte is another, gone or new."""
    at = draw.randrange(len(data))
    byte = bytes([draw.choice([draw.randrange(256), *b'{}[]",:0 9'])])
    return draw.choice([data[:at] + byte + data[at + 1:], data[:at] + data[at + 1:],
                        data[:at] + byte + data[at:], data[:at], data + byte])


def verdict(data):
    try:
        safetensors.deserialize(data)
    except Exception as error:  # its message is what is kept
        return str(error).split(": ", 1)[-1]
    return None


def make():
    draw = random.Random(17)
    files = [file_of(header, b"") for header in BROKEN] + [b"", b"\x08" * 8]
    for tensors in SOUND.values():
        data = bytes(range(size_of(tensors)))
        sound = file_of(spelled(tensors), data)
        files += [sound, sound + b"x", sound[:-1]]
        for _ in range(80):
            other = changed(tensors, draw)
            files.append(file_of(spelled(other), data))
        files += [scratched(sound, draw) for _ in range(30)]
        files += [file_of(scratched(spelled(tensors), draw), data)
                  for _ in range(70)]
    cases = []
    for data in dict.fromkeys(files):
        refused = verdict(data)
        # mpsd opens such files on purpose.
        if refused and "unknown variant" in refused:
            continue
        cases.append({"file": base64.b64encode(data).decode(), "refused": refused})
    return cases
