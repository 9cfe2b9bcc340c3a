#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds mpsd, mpsctl and mpsd-worker for arm64 macOS 15 on Linux, by the
build's own CMake files with their APPLE branches, into build/macos/tree, and
holds the result against what a Mac has:

- every source compiles, against macOS's headers and libc++ as macOS 15 has it;
- every symbol that the objects need is exported: by macOS, by torch's macOS
  wheel, or (see exports.py) by a library that Homebrew has;
- the programs link, and each symbol is exported by the very library it is bound
  to; the libraries, the rpaths and the least macOS are those that are meant;
- the platform's sources link by themselves, without torch, into a program.

Objects that are up to date are not built again: cold it takes about half an
hour of two cores. Exit status 77 says why there is nothing to test.

usage: cross_build.py [--jobs N]
"""

import argparse
import collections
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import exports
import fetch
import macho

HERE = pathlib.Path(__file__).resolve().parent
ROOT = fetch.ROOT
MACOS = fetch.MACOS
TREE = MACOS / "tree"
SKIPPED = 77
MINIMUM = (15, 0)
PROGRAMS = ["mpsd", "mpsctl", "mpsd-worker"]

SYSTEM = {"/usr/lib/libSystem.B.dylib", exports.LIBCXX}
FRAMEWORKS = {f"/System/Library/Frameworks/{n}.framework/Versions/A/{n}"
              for n in ("CoreFoundation", "IOKit")}
TORCH = set(exports.TORCH)


def installed(*packages):
    return {exports.installed(exports.PACKAGES[p][0]) for p in packages}


# The sources of one platform, and what they use.
PLATFORM = ("core/CMakeFiles/mpsd_core_host.dir/",
            "core/CMakeFiles/mpsd_core_base.dir/",
            "core/CMakeFiles/mpsd_core_device.dir/device/step_scope_apple.cc.o")
# What the linker itself makes.
LINKER = {"___dso_handle", "__mh_execute_header"}
RPATHS = {"mpsd-worker": ["@loader_path/../lib/mpsd",
                          str(fetch.torch_dir() / "lib")]}
DYLIBS = {
    "platform": SYSTEM | FRAMEWORKS | {"/usr/lib/libobjc.A.dylib"}
    | installed("absl", "crypto"),
    "mpsd-worker": SYSTEM | FRAMEWORKS | TORCH | {"/usr/lib/libobjc.A.dylib"}
    | installed("absl", "crypto", "pcre2", "png", "jpeg", "webp", "z"),
    "mpsd": SYSTEM | FRAMEWORKS
    | installed("absl", "crypto", "pcre2", "grpc++", "grpc++_reflection",
                "protobuf", "SQLiteCpp", "spdlog", "fmt", "prometheus-cpp-core",
                "ssl"),
    "mpsctl": SYSTEM | installed("absl", "crypto", "pcre2", "grpc++",
                                 "protobuf", "ssl"),
}


def fail(*lines):
    for line in lines:
        print(f"macos: {line}", file=sys.stderr)
    sys.exit(1)


def say(text):
    print(f"macos: {text}", flush=True)


def link(path, target):
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def lay_out_headers(folder):
    """Debian's headers of the packages, and no others of its."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "openssl").mkdir(parents=True)
    usr = pathlib.Path("/usr/include")
    local = [p for p in usr.glob("*-linux-gnu")]
    for name in ("absl", "nlohmann", "CLI", "grpc", "grpcpp", "google",
                 "spdlog", "fmt", "prometheus", "webp", "SQLiteCpp", "sqlite3.h",
                 "pcre2.h", "png.h", "pngconf.h", "pnglibconf.h", "jpeglib.h",
                 "jmorecfg.h", "jerror.h", "jconfig.h", "zlib.h", "zconf.h"):
        found = [p / name for p in (usr, *local) if (p / name).exists()]
        if not found:
            fail(f"no header {name} here: run deploy/setup.sh --tests")
        link(folder / name, found[0])
    for base in (usr, *local):
        for header in (base / "openssl").glob("*.h"):
            link(folder / "openssl" / header.name, header)


def tools():
    """The environment in which CMake finds them."""
    binaries = MACOS / "bin"
    for name in ("bin", "stubs"):
        (MACOS / name).mkdir(exist_ok=True)
    link(binaries / "c++", HERE / "compiler.sh")
    for name in ("ar", "ranlib"):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec "$ZIG_DIR/zig" {name} "$@"\n')
        script.chmod(0o755)
    # CMake asks it for the system's version, as on a Mac.
    (binaries / "sw_vers").write_text("#!/bin/sh\necho 26.1\n")
    (binaries / "sw_vers").chmod(0o755)
    lay_out_headers(MACOS / "include")
    cache = str(MACOS / "zig-cache")
    return dict(os.environ, PATH=f"{binaries}:{os.environ['PATH']}",
                ZIG_DIR=str(fetch.zig_dir()), ZIG_GLOBAL_CACHE_DIR=cache,
                ZIG_LOCAL_CACHE_DIR=cache, MPSD_MACOS_TOOLS=str(binaries),
                MPSD_MACOS_LINKER=fetch.linker(),
                MPSD_MACOS_STUBS=str(MACOS / "stubs"),
                MPSD_MACOS_INCLUDE=str(MACOS / "include"))


def libcxx(environment):
    """libc++'s archives, which zig makes from its sources for any program that
    it links with them."""
    source, program = MACOS / "any.cc", MACOS / "any"
    cache = pathlib.Path(environment["ZIG_GLOBAL_CACHE_DIR"]) / "o"
    names = ("libc++.a", "libc++abi.a")
    if not all(list(cache.glob(f"*/{n}")) for n in names):
        say("building libc++ from zig's sources, once")
        source.write_text("#include <string>\nint main() {}\n")
        subprocess.run([fetch.zig_dir() / "zig", "c++", "-target",
                        "aarch64-macos.15.0", "-O1", source, "-o", program],
                       env=environment, check=True)
    return [next(cache.glob(f"*/{n}")) for n in names]


def has_rust_target():
    rustc = shutil.which("rustc")
    if rustc is None:
        return False
    root = subprocess.run([rustc, "--print", "sysroot"], text=True,
                          capture_output=True, check=True).stdout.strip()
    return pathlib.Path(root, "lib/rustlib", fetch.RUST_TARGET).exists()


def configure(environment):
    stubs = MACOS / "stubs"
    options = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_FLAGS_RELEASE": "-O1",
        "CMAKE_EXE_LINKER_FLAGS":
            f"-L{stubs} -L{HERE}/stubs -F{HERE}/stubs {stubs}/libc++.tbd",
        "CMAKE_TOOLCHAIN_FILE": HERE / "toolchain.cmake",
        "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": HERE / "packages.cmake",
        "MPSD_TORCH_DIR": fetch.torch_dir(),
        "MPSD_CARGO_TARGET": fetch.RUST_TARGET,
    }
    subprocess.run(["cmake", "-S", ROOT, "-B", TREE, "-G", "Ninja",
                    *(f"-D{k}={v}" for k, v in options.items())],
                   env=environment, check=True, stdout=subprocess.DEVNULL)


def ninja(environment, jobs, *targets):
    return subprocess.run(["ninja", "-C", TREE, "-k", "0", "-j", str(jobs),
                           "--quiet", *targets], env=environment).returncode


def objects():
    """Every object of the tree, as ninja names them."""
    outputs = set()
    for entry in json.loads((TREE / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        outputs.add(words[words.index("-o") + 1])
    return sorted(o for o in outputs if o.endswith(".o"))


def needed(files):
    """symbol -> the first of `files`, pairs of a name and a macho.File, that
    needs it and that none of them has."""
    defined = LINKER.union(*(file.defined() for _, file in files))
    first = {}
    for name, file in files:
        for symbol in file.undefined():
            if symbol.name not in defined:
                first.setdefault(symbol.name, name)
    return first


def object_problems(files):
    for name, file in files:
        if (file.cpu, file.kind) != (macho.CPU_ARM64, macho.OBJECT):
            yield f"{name} is no object for arm64"
        if file.platform != 1 or file.minimum != MINIMUM:
            yield f"{name} is for macOS {file.minimum}, not {MINIMUM}"


def unknown_problems(unknown, first):
    texts = exports.demangled([n.removeprefix("_") for n in unknown])
    for name in unknown:
        yield (f"{first[name]} needs {texts[name.removeprefix('_')]}: no library "
               "of a Mac exports it")


def program_problems(file, name, libraries, dylibs, rpaths):
    """What is wrong with a linked program: `libraries` as in Exports, the
    others are what it has to name."""
    if (file.cpu, file.kind) != (macho.CPU_ARM64, macho.EXECUTE):
        yield f"{name} is no program for arm64"
    if file.platform != 1 or file.minimum != MINIMUM:
        yield f"{name} is for macOS {file.minimum}, not {MINIMUM}"
    if file.rpaths != rpaths:
        yield f"{name} has the rpaths {file.rpaths}, not {rpaths}"
    for extra in sorted(set(file.dylibs) - dylibs):
        yield f"{name} is linked to {extra}"
    for lacking in sorted(dylibs - set(file.dylibs)):
        yield f"{name} is not linked to {lacking}"
    for symbol in file.undefined():
        if not 1 <= symbol.library <= len(file.dylibs):
            yield f"{name}: {symbol.name} is bound to no library"
            continue
        library = file.dylibs[symbol.library - 1]
        if symbol.name not in libraries.get(library, ()):
            yield f"{name}: {symbol.name} is bound to {library}, not its export"


def check_objects(known):
    """The symbols of all objects, assigned to libraries."""
    files = [(o, macho.read(TREE / o)) for o in objects()]
    problems = list(object_problems(files))
    crate = TREE / "core/libmpsd_text.a"
    if crate.exists():
        files += [(f"crate {n}", f) for n, f in macho.members(crate)]
    first = needed(files)
    taken, unknown = known.assign(set(first))
    if not crate.exists():
        unknown = [n for n in unknown if not n.startswith("_mpsd_text_")]
    problems += unknown_problems(unknown, first)
    if problems:
        fail(*problems)
    say(f"{len(files)} objects need {len(first)} symbols, all exported: " +
        ", ".join(f"{len(s)} by {n.rsplit('/')[-1]}"
                  for n, s in taken.items() if s))
    return taken


def link_platform(environment):
    """Every object of the platform, whole, under a main that does nothing."""
    stubs = MACOS / "stubs"
    source = MACOS / "platform.cc"
    source.write_text("int main() {}\n")
    parts = [o for o in objects() if o.startswith(PLATFORM)]
    minimum = f"-mmacosx-version-min={MINIMUM[0]}.{MINIMUM[1]}"
    compiler = MACOS / "bin/c++"
    made = MACOS / "platform.o"
    subprocess.run([compiler, minimum, "-c", source, "-o", made],
                   env=environment, check=True)
    subprocess.run(
        [compiler, minimum, made, *parts, f"-L{HERE}/stubs", f"-F{HERE}/stubs",
         stubs / "libc++.tbd", stubs / "libabsl.tbd", stubs / "libcrypto.tbd",
         "-lobjc", "-framework", "IOKit", "-framework", "CoreFoundation",
         "-o", TREE / "bin/platform"], env=environment, cwd=TREE, check=True)


def check_programs(known, programs):
    problems = []
    for name in programs:
        file = macho.read(TREE / "bin" / name)
        problems += program_problems(file, name, known.libraries,
                                     DYLIBS[name], RPATHS.get(name, []))
        bound = collections.Counter(s.library for s in file.undefined())
        say(f"{name}: {sum(bound.values())} symbols, each exported by its one "
            f"of {len(file.dylibs)} libraries; macOS "
            f"{'.'.join(map(str, file.minimum))}")
    if problems:
        fail(*problems)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    jobs = parser.parse_args().jobs
    missing = fetch.missing()
    if missing:
        say(f"SKIPPED: {' and '.join(missing)} not here: "
            "run tests/macos/fetch.py")
        sys.exit(SKIPPED)
    environment = tools()
    rust = has_rust_target()
    configure(environment)
    targets = objects() + (["mpsd_text_crate"] if rust else [])
    if ninja(environment, jobs, *targets):
        fail("sources do not compile for macOS, see above")
    known = exports.Exports(fetch.zig_dir(), fetch.torch_dir(),
                            libcxx(environment))
    known.write_stubs(MACOS / "stubs", check_objects(known))
    programs = PROGRAMS if rust else PROGRAMS[:2]
    if not rust:
        say("NOT LINKED: mpsd-worker, since this Rust has no standard library "
            f"for {fetch.RUST_TARGET} (rustup target add)")
    if ninja(environment, jobs, *programs):
        fail("the programs do not link for macOS, see above")
    link_platform(environment)
    check_programs(known, [*programs, "platform"])


if __name__ == "__main__":
    main()
