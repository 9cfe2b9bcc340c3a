#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the daemon, the client and their tests with the gRPC of Debian's
# experimental distribution, in a Debian of their own, and runs the tests there.
#
#   tests/live/api/newer_server.sh [CTEST ARGUMENT…]
#
# Needs root on Debian 12, 4 GB, and build/release with its worker
# (deploy/build.sh). Takes some 25 minutes on two cores, once; the Debian lies
# in build/newer-grpc and is used again.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
home="$root/build/newer-grpc"
debian="$home/debian"
worker="$root/build/release/bin/mpsd-worker"

# Debian builds its experimental gRPC with the Abseil that sid has at the time.
SID_PACKAGES="build-essential cmake ninja-build ccache pkg-config git python3
  libabsl-dev libsqlite3-dev libsqlitecpp-dev libspdlog-dev prometheus-cpp-dev
  nlohmann-json3-dev libcli11-dev libssl-dev libpng-dev
  libjpeg-dev libwebp-dev zlib1g-dev
  libgtest-dev libgmock-dev cargo rustc"
EXPERIMENTAL_PACKAGES="libgrpc++-dev libprotobuf-dev protobuf-compiler
  protobuf-compiler-grpc"
TARGETS="mpsd mpsctl fake_worker slow_sync api_load idle_uploads server_rpc_test
  server_test client_test"
TESTS="^(server/rpc|server/[A-Z]|client|e2e)"

die() {
  printf 'newer_server: error: %s\n' "$*" >&2
  exit 1
}

# The mounts of this script are its own and go with it.
if [ "${1:-}" != --mounted ]; then
  [ "$(id -u)" -eq 0 ] || die "making a Debian needs root"
  [ -x "$worker" ] || die "no $worker: run deploy/build.sh first"
  exec unshare --mount -- "${BASH_SOURCE[0]}" --mounted "$@"
fi
shift

make_debian() {
  [ ! -e "$debian/.complete" ] || return 0
  command -v debootstrap >/dev/null 2>&1 ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q debootstrap
  rm -rf "$debian"
  mkdir -p "$debian"
  debootstrap --variant=minbase --include=ca-certificates sid "$debian"
  sed 's/ sid / experimental /' "$debian/etc/apt/sources.list" \
    >"$debian/etc/apt/sources.list.d/experimental.list"
  within apt-get update -q
  # shellcheck disable=SC2086  # lists of words
  within apt-get install -y -q --no-install-recommends $SID_PACKAGES
  # shellcheck disable=SC2086
  within apt-get install -y -q --no-install-recommends -t experimental \
    $EXPERIMENTAL_PACKAGES
  touch "$debian/.complete"
}

within() {
  chroot "$debian" env -i HOME=/root LC_ALL=C.UTF-8 \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    CCACHE_DIR=/ccache OMP_WAIT_POLICY=PASSIVE \
    ${http_proxy:+http_proxy="$http_proxy"} "$@"
}

mkdir -p "$debian"
make_debian
cp /etc/resolv.conf "$debian/etc/resolv.conf"
mkdir -p "$debian$root"
mount --bind "$root" "$debian$root"
mount -t proc proc "$debian/proc"
mount --rbind /dev "$debian/dev"
build="$home/build"
within cmake -S "$root" -B "$build" -G Ninja -DMPSD_BUILD_TESTS=ON \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache \
  -DCMAKE_CXX_FLAGS=-Wno-deprecated-declarations
# shellcheck disable=SC2086
within ninja -C "$build" $TARGETS
# The worker speaks no gRPC: this system's serves, with the libraries that it
# was linked to and that a newer Debian has no more.
cp "$worker" "$build/bin/"
within ldd "$build/bin/mpsd-worker" | awk '/not found/ {print $1}' |
  while read -r library; do
    cp -aL "/usr/lib/$(uname -m)-linux-gnu/$library" \
      "$debian/usr/lib/$(uname -m)-linux-gnu/"
  done
within "$build/bin/mpsd" --version
within ctest --test-dir "$build" --output-on-failure -j 4 -R "$TESTS" "$@"
