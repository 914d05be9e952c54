#!/usr/bin/env bash
# Records the runs of the model suites that README.md and docs/ops.md are made from, then makes both again.
#
#   record_conformance.sh DEVICE SUITE=DIR... [-- OPTION...]
#
#   DEVICE   cpu or h200 (cuda:0)
#   SUITE    fixtures, models, nodes or contrib; fixtures is tests/fixtures/models unless given
#   OPTION   for rtx-conformance, such as -j 16 (default: -j with the number of processors)
#   RTX_BUILD (default build/release) is the build whose tools run.
#
# Writes bench/results/DATE-DEVICE-conformance-SUITE.json in place of older records of the same device and suite. Cases
# that fail are part of the record and no error here.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${RTX_BUILD:-$root/build/release}
tools=$(cd "$build" && pwd)/cli
device=${1:?usage: record_conformance.sh DEVICE SUITE=DIR... [-- OPTION...]}
shift
declare -A folders=([fixtures]=$root/tests/fixtures/models)
while [[ $# -gt 0 && $1 != -- ]]; do
  suite=${1%%=*}
  [[ $1 == *=* && " fixtures models nodes contrib " == *" $suite "* ]] || { echo "record_conformance.sh: error: '$1' is not SUITE=DIR" >&2; exit 2; }
  folders[$suite]=$(cd "${1#*=}" && pwd)
  shift
done
[[ $# -gt 0 ]] && shift
options=(-j "$(nproc)" "$@")
case $device in
  cpu) options=(--device cpu "${options[@]}") ;;
  h200) options=(--device cuda:0 "${options[@]}") ;;
  *) echo "record_conformance.sh: error: the device '$device' is neither cpu nor h200" >&2; exit 2 ;;
esac

# The record says how it was made; links keep the paths of this machine out of it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for suite in fixtures models nodes contrib; do
  [[ -n ${folders[$suite]:-} ]] || continue
  ln -s "${folders[$suite]}" "$suite"
  record=$(date -u +%F)-$device-conformance-$suite.json
  start=$SECONDS
  result=0
  "$tools/rtx-conformance" "$suite" "${options[@]}" --json "$record" > "$suite.txt" || result=$?
  # 10: cases failed.
  [[ $result == 0 || $result == 10 ]] || { cat "$suite.txt"; exit "$result"; }
  rm -f "$root"/bench/results/*-"$device-conformance-$suite.json"
  mv "$record" "$root/bench/results/"
  echo "$suite: $(tail -1 "$suite.txt") in $((SECONDS - start)) s"
done
python3 "$root/scripts/readme_tables.py"
python3 "$root/scripts/operators_page.py" --tool "$tools/rtx-import"
