#!/usr/bin/env bash
# Sets up, builds the `ci` preset and runs every test that needs no GPU. Ends with ctest's summary; non-zero on failure.
#
# usage: scripts/test.sh [ctest options]    for example: scripts/test.sh -R layering
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake --preset ci
cmake --build --preset ci
ctest --preset ci --label-exclude gpu --parallel "$(nproc)" --no-tests=error "$@"
