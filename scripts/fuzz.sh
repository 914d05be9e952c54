#!/usr/bin/env bash
# Fuzzes rtx: builds the preset `fuzz` and runs each target of tests/fuzz for some seconds, starting from its committed
# corpus and from what earlier runs found (out/fuzz/TARGET/corpus). Prints a table. On a finding the exit status is 1 and
# the table names the input that reproduces it: `build/fuzz/tests/fuzz_TARGET INPUT`.
#
# usage: scripts/fuzz.sh [--no-build] [--json FILE] SECONDS [TARGET ...]
#
# --json FILE: also writes the table, the command, the date and the machine to FILE.
#
# Needs scripts/setup.sh --fuzz. What a finding needs is a fix, and its input in tests/fuzz/corpus/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."

command="scripts/fuzz.sh $*"
build=1
json=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --no-build) build=0 ;;
    --json)
      json=${2:-}
      shift
      ;;
    *) break ;;
  esac
  shift
done
commit=$(git describe --always --dirty --abbrev=12)
seconds=${1:-}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  sed -n 's/^# usage: /usage: /p' "$0" >&2
  exit 2
fi
shift

if [ $build = 1 ]; then
  [ -f build/fuzz/build.ninja ] || cmake --preset fuzz > /dev/null
  cmake --build --preset fuzz
fi
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(basename -s _fuzzer.cpp -a tests/fuzz/*_fuzzer.cpp)
fi

last_number() { # file, pattern with one group: the group's last match in the file
  sed -nE "s/.*$2.*/\1/p" "$1" | tail -1
}

# An input may take 10 s and 2 GiB under the sanitizers; a quarantine of freed memory would count, so it is small.
export ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=0:detect_leaks=1
export UBSAN_OPTIONS=print_stacktrace=1
status=0
rows=()
printf '%-12s %12s %10s %8s %8s %9s  %s\n' target executions per_second edges inputs peak_MiB result
for target in "${targets[@]}"; do
  binary=build/fuzz/tests/fuzz_$target
  if [ ! -x "$binary" ]; then
    echo "fuzz: error: there is no target '$target'" >&2
    exit 2
  fi
  folder=out/fuzz/$target
  mkdir -p "$folder/corpus"
  options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_final_stats=1
    -artifact_prefix="$folder/")
  if [ -f tests/fuzz/$target.dict ]; then options+=(-dict=tests/fuzz/$target.dict); fi
  result=passed
  if ! "$binary" "${options[@]}" "$folder/corpus" tests/fuzz/corpus/$target > "$folder/log" 2>&1; then
    status=1
    result=$(last_number "$folder/log" 'Test unit written to (.*)')
    result="FAILED: ${result:-see $folder/log}"
  fi
  row=("$target" "$(last_number "$folder/log" 'number_of_executed_units: *([0-9]+)')"
    "$(last_number "$folder/log" 'average_exec_per_sec: *([0-9]+)')"
    "$(last_number "$folder/log" ' cov: ([0-9]+)')" "$(last_number "$folder/log" ' corp: ([0-9]+)')"
    "$(last_number "$folder/log" 'peak_rss_mb: *([0-9]+)')" "$result")
  printf '%-12s %12s %10s %8s %8s %9s  %s\n' "${row[@]}"
  rows+=("$(printf '{"target": "%s", "executions": %s, "executions_per_second": %s, "edges": %s, "inputs": %s, "peak_mib": %s, "result": "%s"}' \
    "${row[0]}" "${row[1]:-null}" "${row[2]:-null}" "${row[3]:-null}" "${row[4]:-null}" "${row[5]:-null}" "${row[6]}")")
done
if [ -n "$json" ]; then
  {
    printf '{\n  "command": "%s",\n  "date": "%s",\n  "commit": "%s",\n' "$command" "$(date -u +%F)" "$commit"
    printf '  "machine": "%s, %s cores",\n  "seconds_per_target": %s,\n  "targets": [\n' \
      "$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$seconds"
    for i in "${!rows[@]}"; do
      printf '    %s%s\n' "${rows[$i]}" "$([ "$i" = $((${#rows[@]} - 1)) ] || echo ,)"
    done
    printf '  ]\n}\n'
  } > "$json"
fi
exit $status
