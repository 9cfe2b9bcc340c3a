#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A C++ compiler for arm64 macOS, as CMake calls one. It compiles with zig's
# Clang and macOS's headers, without zig's own flags, so that libc++ tells what
# the macOS of -mmacosx-version-min has (its availability marks are on); it
# links with zig's linker and without zig's own libc++. ZIG_DIR names zig's
# folder.
set -euo pipefail

: "${ZIG_DIR:?names the folder of zig}"
compiles=no
version=11.0
arguments=()
for argument in "$@"; do
  case "$argument" in
    -c | -E | -S | -fsyntax-only | c++-header) compiles=yes ;;
    -mmacosx-version-min=*)
      version="${argument#*=}"
      continue
      ;;
  esac
  arguments+=("$argument")
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
exec "$ZIG_DIR/zig" c++ -target "aarch64-macos.$version" -nostdlib++ \
  "${arguments[@]}"
