#!/usr/bin/env python3
"""What compiling makes of the layers of real models: kernels a layer, fusion, memory; with errors of recorded runs.

    layers.py --tools build/release/cli DIR [--errors JSON...] [--out FILE] [--page FILE]

DIR holds folders with a model.onnx each. `--errors` are records of rtx-conformance over the same folders. Prints a table;
`--out` writes it as JSON too, `--page` as a page of documentation.

- kernels a layer: steps from one attention to the next one that is the same kernel; where there is no such one, to the
  next attention
- coverage: core operations in kernels of more than one, of all core operations; composites count as the core operations
  they stand for, constants and reshapes do not count
- movement: steps between two attentions that only move elements
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
PAGE = """# What becomes of the layers of real models

Made by `bench/layers.py`, which says what the columns are; do not edit. Models are small ones of each architecture as
exporters write them: `ts` by the legacy PyTorch exporter and its opset, `dyn` by the dynamo exporter, `ort` by ONNX
Runtime's optimizer, `half` and `bf` in f16 and bf16, `int8dyn` with dynamic int8 products.

"""
MOVES = {"transpose", "slice", "concat", "broadcast", "pad", "gather", "gather_elements", "gather_nd"}
STRUCTURE = {"yield", "constant", "reshape"}


def layer_of(steps, kinds):
    """The steps of the last layer: (first, end)."""
    attentions = [i for i, step in enumerate(steps) if kinds[step["kernel"]] == "attention"]
    if len(attentions) < 2:
        return None
    last = attentions[-1]
    same = [i for i in attentions[:-1] if steps[i]["kernel"] == steps[last]["kernel"]]
    return (same or attentions[:-1])[-1], last


def only_moves(body):
    names = set(re.findall(r"^  (?:%[\d, %]+ = )?(\w+)\(", body, re.MULTILINE))
    return names - STRUCTURE <= MOVES


def describe(tools, model, work):
    package = work / "package"
    subprocess.run([tools / "rtx-compile", model / "model.onnx", "--arch", "cpu", "-o", package], check=True,
                   stderr=subprocess.DEVNULL)
    listing = json.loads(subprocess.run([tools / "rtx-inspect", package, "--json"], check=True, capture_output=True).stdout)
    options = [option for dim in listing["dims"]
               for option in ("--dim", f"{dim['name']}={max(dim['min'], min(dim['max'], SIZE))}")]
    listing = json.loads(subprocess.run([tools / "rtx-inspect", package, "--json", *options], check=True,
                                        capture_output=True).stdout)
    kernels = {kernel["name"]: kernel for kernel in listing["kernels"]}
    kinds = {name: kernel["kind"] for name, kernel in kernels.items()}
    steps = [step for program in listing["programs"] for step in program["steps"]]
    counts = [kernels[step["kernel"]]["core_operations"] for step in steps]
    layer = layer_of(steps, kinds)
    moving = [step for step in steps[slice(*layer)] if only_moves(kernels[step["kernel"]]["body"])] if layer else []
    memory = listing["programs"][0]["memory"]["chosen"]
    return {"model": model.name, "kernels": len(steps),
            "kernels_a_layer": layer[1] - layer[0] if layer else None,
            "movement": len(moving),
            "coverage": round(sum(count for count in counts if count > 1) / max(sum(counts), 1), 3),
            "arena_over_bound": round(memory["arena_bytes"] / max(memory["arena_lower_bound"], 1), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--errors", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--page", type=pathlib.Path)
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
    lines = ["| " + " | ".join(column.replace("_", " ") for column in columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [row[column] for column in columns]
        lines.append("| " + " | ".join("" if cell is None else f"{cell:.2g}" if column.startswith("max error") else str(cell)
                                       for column, cell in zip(columns, cells)) + " |")
    print("\n".join(lines))
    if arguments.page:
        arguments.page.write_text(PAGE + "\n".join(lines) + "\n")
    if arguments.out:
        arguments.out.write_text(json.dumps({"size_of_dims": SIZE, "models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
