#!/usr/bin/env python3
"""Times the passes, fusing and planning of encoders of 12 to 192 layers; --json keeps the table.

    measure_passes.py --tools build/release/cli [--json FILE]

The models are those of bench/make_encoder.py, narrow so that weights cost little. Times are what `rtx-compile
--time-passes` says of its phases, the least of five runs; the writing of weights is not counted.
"""

import argparse
import json
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PHASES = ["canonical", "optimize", "fuse", "plan"]
LAYERS = [12, 24, 48, 96, 192]


def measure(tools, layers, folder):
    model = folder / "encoder.onnx"
    subprocess.run([sys.executable, HERE / "make_encoder.py", model, "--layers", str(layers), "--hidden", "64", "--heads",
                    "4", "--ffn", "256", "--vocab", "100"], check=True, capture_output=True)
    runs = []
    for _ in range(5):
        done = subprocess.run([tools / "rtx-compile", model, "--arch", "cpu", "-o", folder / "package", "--time-passes"],
                              check=True, capture_output=True, text=True)
        runs.append({name: float(ms) for name, ms in re.findall(r"^(\w+) +([\d.]+) ms$", done.stderr, re.MULTILINE)})
    best = min(runs, key=lambda run: sum(run[phase] for phase in PHASES))
    row = {"layers": layers, **{f"{phase}_ms": best[phase] for phase in PHASES}}
    return {**row, "total_ms": round(sum(best[phase] for phase in PHASES), 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(arguments.tools, layers, pathlib.Path(folder)) for layers in LAYERS]
    columns = list(rows[0])
    print("| " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in columns) + " |")
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows},
                                             indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
