#!/usr/bin/env python3
"""The tables of README.md, made from the recorded runs in bench/results.

    readme_tables.py          writes them into README.md, between the marks <!-- NAME --> and <!-- end NAME -->
    readme_tables.py --check  fails if README.md does not say what the records say
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"

# What a recorded suite is, in the order of the table; the key is the last part of its file name.
SUITES = {
    "fixtures": "models in `tests/fixtures` (every exporter and form)",
    "models": "more models from both PyTorch exporters and ONNX Runtime's optimizers (opset 14 to 23; f32, f16, bf16, int8)",
    "nodes": "ONNX operator tests, with their expanded and older forms",
    "contrib": "`com.microsoft` operators, late opsets, GenAI graphs",
}
DEVICES = {"cpu": "CPU device", "h200": "NVIDIA H200"}


def newest(pattern):
    """The newest record that fits, by the date in its name."""
    found = sorted(RESULTS.glob(pattern))
    return json.loads(found[-1].read_text()) if found else None


def coverage():
    yield "| suite | " + " | ".join(DEVICES.values()) + " |"
    yield "|---|" + "---|" * len(DEVICES)
    for suite, what in SUITES.items():
        cells = []
        for device in DEVICES:
            record = newest(f"*-{device}-conformance-{suite}.json")
            cells.append("not recorded" if record is None else
                         f"{record['passed']} passed, {record['failed']} failed, {record['skipped']} refused by name")
        yield f"| {what} | " + " | ".join(cells) + " |"


def numbers():
    records = [record for record in map(newest, ("*-cpu-measure.json", "*-cpu-import.json")) if record]
    yield "| what | measured | peak memory | goal |"
    yield "|---|---|---|---|"
    for row in (row for record in records for row in record["rows"]):
        peak = f"{row['peak_mib']} MiB" if row["peak_mib"] else ""
        yield f"| {row['what']} | {row['value']:.3g} {row['unit']} | {peak} | {row['goal'] or ''} |"
    yield ""
    for record in records:
        yield f"On {record['machine']}, by `{record['command']}`."


def filled(text):
    for name, table in (("coverage", coverage), ("numbers", numbers)):
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        text, count = mark.subn(lambda m, t=table: m[1] + "\n".join(t()) + "\n" + m[2], text)
        if count != 1:
            sys.exit(f"README.md: error: there is not one pair of marks '{name}'")
    return text


def main():
    readme = ROOT / "README.md"
    text = readme.read_text()
    wanted = filled(text)
    if sys.argv[1:] == ["--check"]:
        if wanted != text:
            sys.exit("README.md: error: its tables are not those of bench/results\n  help: run scripts/readme_tables.py")
        print("the tables of README.md are those of bench/results")
    else:
        readme.write_text(wanted)


if __name__ == "__main__":
    main()
