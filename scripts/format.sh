#!/usr/bin/env bash
# Checks the layout of C++ files with clang-format; with --fix, mends it. Needs `scripts/setup.sh --dev` once.
#
# usage: scripts/format.sh [--fix] [--all | BASE]
#   BASE   check the files that differ from this commit (default: HEAD, that is, what is not committed yet)
#   --all  check every file
set -euo pipefail
cd "$(dirname "$0")/.."

mode=(--dry-run --Werror)
base=HEAD
for argument in "$@"; do
  case $argument in
    --fix) mode=(-i) ;;
    --all) base= ;;
    -*) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    *) base=$argument ;;
  esac
done
clang_format=$(command -v clang-format-14) || {
  echo "format: error: clang-format-14 is missing; run scripts/setup.sh --dev" >&2
  exit 1
}

patterns=('*.cpp' '*.h' '*.cu' '*.cuh')
if [ -n "$base" ]; then
  mapfile -t files < <({
    git diff --name-only --diff-filter=d "$base" -- "${patterns[@]}"
    git ls-files --others --exclude-standard -- "${patterns[@]}"
  } | sort -u)
else
  mapfile -t files < <(git ls-files -- "${patterns[@]}")
fi
[ ${#files[@]} = 0 ] || "$clang_format" "${mode[@]}" "${files[@]}"
echo "format: ${#files[@]} files looked at" >&2
