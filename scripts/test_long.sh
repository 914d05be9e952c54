#!/usr/bin/env bash
# Runs the tests that take minutes: random transformers, 10,000 of them. Builds what they need first.
#
# usage: scripts/test_long.sh [ctest options]
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset ci
cmake --build --preset ci --target property_transformer
ctest --preset ci -C long -L long --no-tests=error --output-on-failure "$@"
