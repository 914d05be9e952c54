#!/usr/bin/env python3
"""What compiling makes of the layers of real models: kernels a layer, fusion, memory; with errors of recorded runs.

    layers.py --tools build/release/cli DIR [--errors JSON...] [--out FILE]

DIR holds folders with a model.onnx each. `--errors` are records of rtx-conformance over the same folders. Prints a table;
`--out` writes it as JSON too.

- kernels a layer: steps of the last layer, known by the index in the names of the nodes that a step comes from
- coverage: operations in kernels of more than one operation, of all operations (constants and reshapes do not count)
- arena: peak over the lower bound, with every dim at the size below
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SIZE = 16  # of every named dim
LAYER = re.compile(r"(?:^|[/._])(?:layers?|h|blocks?|resblocks)[./_](\d+)(?=[/._])")
STRUCTURE = {"yield", "constant", "reshape"}


def layer_of(step):
    for origin in step["origins"]:
        found = LAYER.search(origin.split("'")[-1]) or LAYER.search(origin)
        if found:
            return int(found.group(1))
    return None


def operations(body):
    names = re.findall(r"^  (?:%[\d, %]+ = )?(\w+)\(", body, re.MULTILINE)
    return [name for name in names if name not in STRUCTURE]


def describe(tools, model, work):
    package = work / "package"
    subprocess.run([tools / "rtx-compile", model / "model.onnx", "--arch", "cpu", "-o", package], check=True,
                   stderr=subprocess.DEVNULL)
    listing = json.loads(subprocess.run([tools / "rtx-inspect", package, "--json"], check=True, capture_output=True).stdout)
    options = [option for dim in listing["dims"]
               for option in ("--dim", f"{dim['name']}={max(dim['min'], min(dim['max'], SIZE))}")]
    listing = json.loads(subprocess.run([tools / "rtx-inspect", package, "--json", *options], check=True,
                                        capture_output=True).stdout)
    bodies = {kernel["name"]: operations(kernel["body"]) for kernel in listing["kernels"]}
    steps = [step for program in listing["programs"] for step in program["steps"]]
    total = fused = 0
    for step in steps:
        count = len(bodies[step["kernel"]])
        total += count
        fused += count if count > 1 else 0
    layers = [layer_of(step) for step in steps]
    last = max((layer for layer in layers if layer is not None), default=None)
    memory = listing["programs"][0]["memory"]["chosen"]
    return {"model": model.name, "kernels": len(steps),
            "kernels_a_layer": layers.count(last) if last is not None else None,
            "coverage": round(fused / max(total, 1), 3),
            "arena_over_bound": round(memory["arena_bytes"] / max(memory["arena_lower_bound"], 1), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--errors", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for model in sorted(path.parent for path in arguments.models.glob("*/model.onnx")):
            rows.append(describe(arguments.tools, model, pathlib.Path(folder)))
    devices = []
    for path in arguments.errors:
        record = json.loads(path.read_text())
        device = record["device"]["name"].split(",")[0]
        devices.append(device)
        errors = {case["name"]: case.get("max_absolute_error") for case in record["cases"]}
        for row in rows:
            row[f"max error, {device}"] = errors.get(row["model"])
    columns = list(rows[0])
    print("| " + " | ".join(column.replace("_", " ") for column in columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        cells = [row[column] for column in columns]
        print("| " + " | ".join("" if cell is None else f"{cell:.2g}" if column.startswith("max error") else str(cell)
                                for column, cell in zip(columns, cells)) + " |")
    if arguments.out:
        arguments.out.write_text(json.dumps({"size_of_dims": SIZE, "models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
