#!/usr/bin/env bash
# Installs everything that building and testing rtx needs, on Debian 12 or Ubuntu 24.04, as root or with sudo:
#   Debian packages, .venv/ (Python test oracles), .deps/onnx-schema/ (onnx.proto), .deps/cuda (NVRTC).
# Versions come from dependencies.yaml. Running it again changes nothing and needs no network.
#
# usage: scripts/setup.sh [--dev] [--fuzz] [--with-gpu]
#   --dev       also clang-format and clang-tidy
#   --fuzz      also clang and libFuzzer
#   --with-gpu  also cuBLASLt, which rtx-run needs on a GPU; implied where a GPU's driver is found
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "error: $*"
  exit 1
}

apt_groups=(build)
with_gpu=0
for argument in "$@"; do
  case $argument in
    --dev) apt_groups+=(dev) ;;
    --fuzz) apt_groups+=(fuzz) ;;
    --with-gpu) with_gpu=1 ;;
    *) fail "unknown option '$argument'; see the top of scripts/setup.sh" ;;
  esac
done
if [ -e /dev/nvidiactl ]; then with_gpu=1; fi

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    fail "'$*' needs root: run this script as root or install sudo"
  fi
}

apt_updated=0
apt_install() {
  if [ $apt_updated = 0 ]; then
    # One unreachable extra repository must not stop the install of packages from the others.
    as_root apt-get update -qq || say "warning: 'apt-get update' failed in part, going on with the lists at hand"
    apt_updated=1
  fi
  as_root env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes \
    apt-get -o Dpkg::Use-Pty=0 install -y -qq --no-install-recommends "$@" > /dev/null
}

is_installed() { # Debian packages; true if all of them are
  [ "$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2> /dev/null | grep -cx installed)" = $# ]
}

# --- Debian packages ---------------------------------------------------------------------------------------------------

command -v apt-get > /dev/null || fail "this system has no apt-get; rtx is set up on Debian 12 and Ubuntu 24.04"
# Before this list can be read, there must be a Python. The distribution's comes first: others may lack venv.
[ -x /usr/bin/python3 ] || apt_install python3
python=/usr/bin/python3
dependencies() { "$python" scripts/dependencies.py "$@"; }

packages=()
for group in "${apt_groups[@]}"; do
  mapfile -t -O ${#packages[@]} packages < <(dependencies apt "$group")
done
if ! is_installed "${packages[@]}"; then
  say "installing ${#packages[@]} Debian packages"
  apt_install "${packages[@]}"
fi

# --- Python packages that tests compare with -----------------------------------------------------------------------------

install_wheels() { # pip's arguments; the requirements on stdin. Without dependencies: each is in the list itself.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    "$@" -r /dev/stdin
}

oracle_stamp=$({ dependencies requirements oracle && "$python" --version; } | sha256sum)
if [ "$(cat .venv/rtx_stamp 2> /dev/null)" != "$oracle_stamp" ]; then
  say "making .venv"
  rm -rf .venv
  "$python" -m venv .venv
  dependencies requirements oracle | install_wheels
  printf '%s\n' "$oracle_stamp" > .venv/rtx_stamp
fi

# --- ONNX schema -----------------------------------------------------------------------------------------------------------

schema=.deps/onnx-schema/onnx/onnx.proto
schema_hash=$(dependencies field onnx member_sha256)
has_hash() { [ -f "$1" ] && [ "$(sha256sum < "$1")" = "$2  -" ]; } # file, sha256
if ! has_hash $schema "$schema_hash"; then
  mkdir -p "$(dirname $schema)"
  cp .venv/lib/python3*/site-packages/"$(dependencies field onnx member)" $schema
  has_hash $schema "$schema_hash" || fail "$schema is not the file that dependencies.yaml lists"
fi

# --- NVRTC -------------------------------------------------------------------------------------------------------------------

is_toolkit() { # folder of a CUDA 13 toolkit, or of the wheels that make up one
  [ -e "$1/lib64/libnvrtc.so.13" ] && { [ $with_gpu = 0 ] || [ -e "$1/lib64/libcublasLt.so.13" ]; }
}

if ! is_toolkit .deps/cuda; then
  nvcc=$(command -v nvcc || true)
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda "${nvcc%/bin/nvcc}"; do
    if [ -n "$folder" ] && is_toolkit "$folder"; then
      say "using the CUDA toolkit in $folder"
      ln -sfn "$folder" .deps/cuda
      break
    fi
  done
fi
if ! is_toolkit .deps/cuda; then
  say "no CUDA 13 toolkit found: installing NVRTC from PyPI (set CUDA_HOME to use a toolkit)"
  wheels=.deps/cuda-wheels
  rm -rf $wheels
  {
    dependencies requirements nvrtc
    if [ $with_gpu = 1 ]; then dependencies requirements gpu; fi
  } | install_wheels --target $wheels
  ln -sfn lib $wheels/nvidia/cu13/lib64
  ln -sfn cuda-wheels/nvidia/cu13 .deps/cuda
  is_toolkit .deps/cuda || fail "the wheels did not bring NVRTC where it was expected, in $wheels/nvidia/cu13"
fi
