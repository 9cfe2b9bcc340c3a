# SPDX-License-Identifier: Apache-2.0
"""Who exports a symbol on a Mac. What macOS and torch export is known: zig's
list of libSystem, the lists in stubs/, the wheel's dylibs, libc++ built from
its sources. Of Homebrew's libraries only Linux builds are here: a symbol is
theirs if Debian's library of that name has the same one, C++ names compared as
they read, without what differs between the two systems' ABIs."""

import pathlib
import re
import subprocess

import macho
import tbd

STUBS = pathlib.Path(__file__).resolve().parent / "stubs"
BREW = "/opt/homebrew/opt/"
# The stub's name: the name that a Mac's programs are linked to (Homebrew's, or
# the system's own where the name is a whole path), and the Debian libraries
# that represent it.
PACKAGES = {
    "absl": ("abseil/lib/libabsl.dylib", ["libabsl_*.so"]),
    "crypto": ("openssl@3/lib/libcrypto.3.dylib", ["libcrypto.so"]),
    "ssl": ("openssl@3/lib/libssl.3.dylib", ["libssl.so"]),
    "z": ("/usr/lib/libz.1.dylib", ["libz.so"]),  # the system's own
    "pcre2": ("pcre2/lib/libpcre2-8.0.dylib", ["libpcre2-8.so"]),
    "png": ("libpng/lib/libpng16.16.dylib", ["libpng.so"]),
    "jpeg": ("jpeg-turbo/lib/libjpeg.8.dylib", ["libjpeg.so"]),
    "webp": ("webp/lib/libwebp.7.dylib", ["libwebp.so"]),
    "grpc++": ("grpc/lib/libgrpc++.dylib",
               ["libgrpc++.so", "libgrpc.so", "libgpr.so"]),
    "grpc++_reflection": ("grpc/lib/libgrpc++_reflection.dylib",
                          ["libgrpc++_reflection.so"]),
    "protobuf": ("protobuf/lib/libprotobuf.dylib", ["libprotobuf.so"]),
    "SQLiteCpp": ("sqlitecpp/lib/libSQLiteCpp.dylib",
                  ["libSQLiteCpp.a", "libsqlite3.so"]),
    "spdlog": ("spdlog/lib/libspdlog.dylib", ["libspdlog.so"]),
    "fmt": ("fmt/lib/libfmt.dylib", ["libfmt.so"]),
    "prometheus-cpp-core": ("prometheus-cpp/lib/libprometheus-cpp-core.dylib",
                            ["libprometheus-cpp-core.so"]),
}
TORCH = ["@rpath/libc10.dylib", "@rpath/libtorch_cpu.dylib"]
LIBCXX = "/usr/lib/libc++.1.dylib"
# std::string and the streams, which libstdc++ has short names for; __1 and
# __cxx11; the fixed-width integers: Linux makes int64_t of long, macOS of long
# long; and the system clock, which counts in micro- and in nanoseconds.
SPELLINGS = [
    (r"std::(__1|__cxx11)::", "std::"), (r"\[abi:cxx11\]", ""),
    (r"> >", ">>"), (r"> >", ">>"),
    (r"std::basic_string<char, std::char_traits<char>, "
     r"std::allocator<char>>", "std::string"),
    (r"std::basic_(\w+)<char, std::char_traits<char>>", r"std::\1"),
    (r"\blong long\b", "long"), (r"\b_V2::", ""),
    (r"std::chrono::time_point<std::chrono::system_clock, "
     r"std::chrono::duration<long, std::ratio<1l, \d+l>>>", "system_time"),
]


def installed(path):
    """Where a Mac has the library of PACKAGES."""
    return path if path.startswith("/") else BREW + path


def demangled(names):
    """How each of `names`, without macOS's underscore in front, reads."""
    run = subprocess.run(["c++filt"], input="\n".join(names) + "\n", text=True,
                         capture_output=True, check=True)
    return dict(zip(names, run.stdout.splitlines()))


def spelled(text):
    for pattern, replacement in SPELLINGS:
        text = re.sub(pattern, replacement, text)
    return text


def debian_files(patterns):
    found = subprocess.run(["c++", "-print-file-name=libc.so.6"], text=True,
                           capture_output=True, check=True).stdout.strip()
    for folder in (pathlib.Path(found).resolve().parent,
                   *pathlib.Path("/usr/lib").glob("*-linux-gnu")):
        files = [f for p in patterns for f in sorted(folder.glob(p))]
        if files:
            return files
    raise SystemExit(f"macos: no {patterns[0]}: run deploy/setup.sh --tests")


def debian_symbols(patterns):
    """Exported names as they read."""
    names = set()
    for path in debian_files(patterns):
        options = [] if path.suffix == ".a" else ["-D"]
        run = subprocess.run(
            ["nm", *options, "--defined-only", "-g", "--format=posix", path],
            text=True, capture_output=True, check=True)
        names |= {line.split()[0].split("@")[0]
                  for line in run.stdout.splitlines()
                  if line and not line.endswith(":")}
    return {spelled(text) for text in demangled(sorted(names)).values()}


def archive_symbols(paths):
    return {name for path in paths for _, file in macho.members(path)
            for name in file.defined()}


class Exports:
    """`libraries` maps a name that programs are linked to, to its symbols."""

    def __init__(self, zig, torch, libcxx_archives):
        self.libraries = {}
        system = tbd.read(zig / "lib/libc/darwin/libSystem.tbd")
        self.libraries[system[0]] = system[1]
        for path in sorted(STUBS.rglob("*.tbd")):
            name, symbols = tbd.read(path)
            self.libraries[name] = symbols
        for name in TORCH:
            file = macho.read(torch / "lib" / pathlib.Path(name).name)
            self.libraries[file.name] = file.exports
        self.libraries[LIBCXX] = archive_symbols(libcxx_archives)
        self.packages = {}

    def package_symbols(self, package):
        if package not in self.packages:
            self.packages[package] = debian_symbols(PACKAGES[package][1])
        return self.packages[package]

    def assign(self, names):
        """(library -> its ones of `names`, those that no library exports). The
        packages' own become part of `libraries`."""
        taken = {name: names & symbols
                 for name, symbols in self.libraries.items()}
        left = sorted(names.difference(*taken.values()))
        texts = demangled([name.removeprefix("_") for name in left])
        for package, (path, _) in PACKAGES.items():
            known = self.package_symbols(package)
            mine = {name for name in left
                    if spelled(texts[name.removeprefix("_")]) in known}
            taken[installed(path)] = mine
            left = [name for name in left if name not in mine]
        for library, symbols in taken.items():
            self.libraries.setdefault(library, symbols)
        return taken, left

    def write_stubs(self, folder, taken):
        """The libraries that the link finds in `folder`."""
        tbd.write(folder / "libc++.tbd", LIBCXX, self.libraries[LIBCXX])
        # LLVM 14 does not read the newer form of a dylib's exports.
        for name in TORCH:
            path = folder / pathlib.Path(name).with_suffix(".tbd").name
            tbd.write(path, name, self.libraries[name])
        for package, (path, _) in PACKAGES.items():
            tbd.write(folder / f"lib{package}.tbd", installed(path),
                      taken[installed(path)])
