# SPDX-License-Identifier: Apache-2.0
"""What the three programs are made of: mpsd and mpsctl without libtorch,
mpsd-worker without gRPC, protobuf and spdlog, neither as a shared library nor
as code linked in.

    linkage.py BIN_DIR   checks BIN_DIR/{mpsd,mpsctl,mpsd-worker}
"""

import pathlib
import re
import subprocess
import sys

TORCH = ("libtorch",
         r"lib(torch|c10|shm)[\w.]*\.(so|dylib)",
         r"\b(c10|at|torch)::[A-Za-z_]")
RPC = ("gRPC, protobuf or spdlog",
       r"lib(grpc|protobuf|upb|gpr|spdlog)[\w+.-]*\.(so|dylib)",
       r"\b(grpc|grpc_core|spdlog|google::protobuf)::[A-Za-z_]")
FORBIDDEN = {"mpsd": TORCH, "mpsctl": TORCH, "mpsd-worker": RPC}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          errors="replace", check=False).stdout


def libraries(program):
    if sys.platform == "darwin":
        return run("otool", "-L", str(program))
    return run("ldd", str(program))


def symbols(program):
    return run("nm", "-C", str(program))


def judge(name, libraries_text, symbols_text, rule):
    """Problems of a program out of what ldd and nm print about it."""
    what, library, symbol = rule
    problems = []
    for line in libraries_text.splitlines():
        # The tool's first word is the library; the rest is where it was found.
        if re.search(library, line.split("=>")[0]):
            problems.append(f"{name} links {what}: {line.strip()}")
    hits = [line for line in symbols_text.splitlines()
            if re.search(symbol, line)]
    if hits:
        problems.append(f"{name} holds {len(hits)} symbols of {what}, as "
                        f"{hits[0].strip()[:150]}")
    return problems


def check(bin_dir):
    problems = []
    for name, rule in FORBIDDEN.items():
        program = pathlib.Path(bin_dir) / name
        if not program.exists():
            problems.append(f"{program} is not built")
            continue
        names = symbols(program)
        if not names:
            problems.append(f"{program} has no symbols to look at")
        problems += judge(name, libraries(program), names, rule)
    return problems


if __name__ == "__main__":
    found = check(sys.argv[1])
    print("\n".join(found) or "each program links what it should")
    sys.exit(1 if found else 0)
