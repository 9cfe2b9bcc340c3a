# SPDX-License-Identifier: Apache-2.0
"""Takes the place of the GPU libraries that a Linux torch wheel asks for.

`import torch` on Linux loads cuBLAS, cuDNN, NCCL and their kin, several
gigabytes that an oracle on the CPU never calls. This writes, next to the
wheel's own libraries, one small shared object per missing library: it exports
the symbols (and symbol versions) that the wheel names, and each of them aborts
with its name when called. Real libraries, where installed, are left alone.

usage: gpu_stubs.py TORCH_LIB_DIR
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

GPU_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
# Never loaded on the CPU, so what it wants need not exist.
LAZY = {"libtorch_cuda_linalg.so"}


def output(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))


def undefined(library):
    """Yields (symbol, version or "") that `library` leaves to others."""
    for line in output("nm", "-D", "--undefined-only", library).splitlines():
        symbol, _, version = line.split()[-1].partition("@")
        yield symbol, version.lstrip("@")


def stem(soname):
    return re.sub(r"(_host)?\.so.*", "", soname)[len("lib"):].lower()


def owner(symbol, version, missing):
    """The missing library that should export `symbol`, or None."""
    if version in missing:
        return version
    for soname in sorted(missing, key=lambda name: -len(stem(name))):
        if version.lower() == stem(soname):
            return soname
        if not version and symbol.lower().startswith(stem(soname)):
            return soname
    return None


def build(soname, symbols, folder):
    """Compiles one stand-in: `symbols` maps a symbol to its version."""
    lines = ["#include <stdio.h>", "#include <stdlib.h>"]
    lines += [
        f'int {name}(void) {{ fputs("{name}: {soname} is a stand-in, there '
        f'is no GPU here\\n", stderr); abort(); }}' for name in sorted(symbols)
    ]
    versions = {version for version in symbols.values() if version}
    script = "".join(
        f"{version} {{ global: " +
        " ".join(f"{n};" for n, v in sorted(symbols.items()) if v == version) +
        " };\n" for version in sorted(versions))
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch, "stub.c")
        source.write_text("\n".join(lines) + "\n")
        command = ["cc", "-w", "-shared", "-fPIC", "-o", str(folder / soname),
                   f"-Wl,-soname,{soname}", str(source)]
        if script:
            version_script = pathlib.Path(scratch, "stub.map")
            version_script.write_text(script)
            command.append(f"-Wl,--version-script={version_script}")
        subprocess.run(command, check=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    vendor = folder.parent.parent / "nvidia"
    present = set(os.listdir(folder)) | {p.name for p in vendor.rglob("*.so*")}
    libraries = [p for p in folder.glob("libtorch*.so") if p.name not in LAZY]
    libraries += [folder / "libc10_cuda.so"]
    missing = {}
    for library in libraries:
        for soname in needed(str(library)):
            if GPU_LIBRARY.match(soname) and soname not in present:
                missing.setdefault(soname, {})
    for library in libraries:
        for symbol, version in undefined(str(library)):
            soname = owner(symbol, version, missing)
            if soname:
                missing[soname][symbol] = version
    for soname, symbols in sorted(missing.items()):
        build(soname, symbols, folder)
        print(f"stand-in for {soname}: {len(symbols)} symbols")


if __name__ == "__main__":
    main()
