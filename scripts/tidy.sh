#!/usr/bin/env bash
# Runs the checks of .clang-tidy on C++ sources. Needs `scripts/setup.sh --dev` and a configured `dev` preset.
#
# usage: scripts/tidy.sh [BASE | FILE.cpp ...]
#   BASE  look at the sources that differ from this commit (default: HEAD, that is, what is not committed yet)
set -euo pipefail
cd "$(dirname "$0")/.."

clang_tidy=$(command -v clang-tidy-14) || {
  echo "tidy: error: clang-tidy-14 is missing; run scripts/setup.sh --dev" >&2
  exit 1
}
[ -f build/dev/compile_commands.json ] || cmake --preset dev > /dev/null
if [ $# -gt 0 ] && [ -f "$1" ]; then
  files=("$@")
else
  mapfile -t files < <({
    git diff --name-only --diff-filter=d "${1:-HEAD}" -- '*.cpp'
    git ls-files --others --exclude-standard -- '*.cpp'
  } | sort -u)
fi
[ ${#files[@]} = 0 ] || printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -n 1 "$clang_tidy" -p build/dev --quiet
echo "tidy: ${#files[@]} files looked at" >&2
