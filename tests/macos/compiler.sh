#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A C++ compiler for arm64 macOS, as CMake calls one. It compiles with zig's
# Clang and macOS's headers, without zig's own flags, so that libc++ reports
# what the macOS of -mmacosx-version-min has (its availability marks are on). It
# links with LLVM's linker, which takes each library for what it exports, and
# adds libSystem alone. ZIG_DIR names zig's folder, MPSD_MACOS_LINKER ld64.lld.
set -euo pipefail

: "${ZIG_DIR:?names the folder of zig}"
compiles=no
version=11.0
arguments=()
linked=()
for argument in "$@"; do
  case "$argument" in
    -c | -E | -S | -fsyntax-only | c++-header) compiles=yes ;;
    -mmacosx-version-min=*)
      version="${argument#*=}"
      continue
      ;;
  esac
  arguments+=("$argument")
  case "$argument" in
    -Wl,*)
      IFS=, read -r -a words <<<"${argument#-Wl,}"
      linked+=("${words[@]}")
      ;;
    -O? | -f[!r]* | -W* | -std=*) ;;
    -lm | -lpthread) ;;  # parts of libSystem
    *) linked+=("$argument") ;;
  esac
done

if [ "$compiles" = yes ]; then
  lib="$ZIG_DIR/lib"
  exec "$ZIG_DIR/zig" clang --driver-mode=g++ \
    -target "arm64-apple-macosx$version" \
    -nostdinc -isystem "$lib/libcxx/include" \
    -isystem "$lib/libcxxabi/include" -isystem "$lib/include" \
    -isystem "$lib/libc/include/any-macos-any" \
    -D_LIBCPP_ABI_VERSION=1 -D_LIBCPP_ABI_NAMESPACE=__1 \
    -D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE \
    -D_LIBCPP_PSTL_BACKEND_SERIAL "${arguments[@]}"
fi
exec "$MPSD_MACOS_LINKER" -arch arm64 \
  -platform_version macos "$version" "$version" "${linked[@]}" \
  "$ZIG_DIR/lib/libc/darwin/libSystem.tbd"
