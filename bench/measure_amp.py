#!/usr/bin/env python3
"""What rtx-compile --amp costs in accuracy: outputs of f16 and bf16 packages against those of the f32 package.

    measure_amp.py --tools build/release/cli DIR... [--json FILE] [--goal 1e-3]

Each DIR holds a model.onnx and inputs.npz. All run on the CPU device. For each model and type: the largest relative norm
of an output's error, |amp - f32| / |f32| (Euclidean norms over the elements of the output; outputs with the same name),
casts, kernels and kernels a layer beside those in f32. Where an error is above the goal, it is measured again with one
kind of operation at a time left in f32 (--keep-fp32): what that takes away came from there. Needs numpy.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import layers

TYPES = ("fp16", "bf16")
KINDS = ("matmul", "attention", "conv", "gelu", "silu", "rope", "add", "mul")


class Tools:
    def __init__(self, folder, work):
        self.folder, self.work = folder, work

    def call(self, tool, *arguments):
        return subprocess.run([self.folder / tool, *map(str, arguments)], capture_output=True, text=True)

    def compile(self, model, *options):
        """(path of the package, report of --amp); nothing where an option fits nothing."""
        package, report = self.work / "package", self.work / "report"
        result = self.call("rtx-compile", model / "model.onnx", "-o", package, *options,
                           *(["--amp-report", report] if options else []))
        if "[RTX-E014]" in result.stderr:
            return None, None
        if result.returncode:
            sys.exit(f"{model.name}: {result.stderr}")
        return package, report.read_text() if options else ""

    def outputs(self, model, package):
        out, given = self.work / "outputs.npz", self.work / "inputs.npz"
        types = {spec["name"]: spec["dtype"] for spec in self.listing(package)["programs"][0]["inputs"]}
        with numpy.load(model / "inputs.npz") as arrays:
            numpy.savez(given, **{name: as_type(arrays[name], types.get(name)) for name in arrays})
        result = self.call("rtx-run", package, "--device", "cpu", "--quiet", "--inputs", given, "--outputs", out)
        if result.returncode:
            sys.exit(f"{model.name}: {result.stderr}")
        with numpy.load(out) as arrays:
            return {name: numbers(arrays[name]) for name in arrays}

    def listing(self, package):
        return json.loads(self.call("rtx-inspect", package, "--json").stdout)

    def kernels(self, package):
        listing = self.listing(package)
        steps = [step for program in listing["programs"] for step in program["steps"]]
        layer = layers.layer_of(steps, {kernel["name"]: kernel["kind"] for kernel in listing["kernels"]})
        return len(steps), layer[1] - layer[0] if layer else None


def numbers(array):
    """In f64; .npy files hold bf16 as two bytes without a type."""
    if array.dtype.kind == "V":
        array = (array.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float64)


def as_type(array, dtype):
    """16-bit inputs are recorded as f32."""
    if array.dtype != numpy.float32 or dtype not in ("f16", "bf16"):
        return array
    if dtype == "f16":
        return array.astype(numpy.float16)
    return (array.view(numpy.uint32) >> 16).astype(numpy.uint16).view("V2")


def errors(got, want):
    """By output. Not a number and infinity must be where they were."""
    result = {}
    for name, reference in want.items():
        finite = numpy.isfinite(reference)
        if not numpy.array_equal(finite, numpy.isfinite(got[name])):
            result[name] = float("inf")
            continue
        norm = numpy.linalg.norm(reference[finite])
        result[name] = float(numpy.linalg.norm((got[name] - reference)[finite]) / norm) if norm else 0.0
    return result


def measure(tools, model, goal):
    package, _ = tools.compile(model)
    want = tools.outputs(model, package)
    kernels, a_layer = tools.kernels(package)
    row = {"model": model.name, "kernels": kernels, "kernels_a_layer": a_layer}
    for amp in TYPES:
        package, report = tools.compile(model, f"--amp={amp}")
        found = errors(tools.outputs(model, package), want)
        kernels, a_layer = tools.kernels(package)
        worst = max(found, key=found.get)
        entry = {"error": found[worst], "output": worst, "summary": report.splitlines()[0], "kernels": kernels,
                 "kernels_a_layer": a_layer}
        if found[worst] > goal:
            entry["error_without"] = {}
            for kind in KINDS:
                package, _ = tools.compile(model, f"--amp={amp}", f"--keep-fp32={kind}")
                if package:
                    entry["error_without"][kind] = max(errors(tools.outputs(model, package), want).values())
        row[amp] = entry
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--goal", type=float, default=1e-3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(arguments.tools.resolve(), pathlib.Path(folder))
        for model in arguments.models:
            rows.append(measure(tools, model, arguments.goal))
            row = rows[-1]
            print(f"{row['model']:<24}" + "  ".join(
                f"{amp} {row[amp]['error']:.2e} kernels {row[amp]['kernels']}/{row['kernels']} a layer "
                f"{row[amp]['kernels_a_layer']}/{row['kernels_a_layer']}" for amp in TYPES), flush=True)
    for amp in TYPES:
        above = [row["model"] for row in rows if row[amp]["error"] > arguments.goal]
        print(f"{amp}: {len(rows) - len(above)} of {len(rows)} within {arguments.goal}; above: {' '.join(above) or 'none'}")
    if arguments.json:
        command = "bench/measure_amp.py --tools build/ci/cli DIR..."
        arguments.json.write_text(json.dumps({"command": command, "device": "cpu", "goal": arguments.goal, "models": rows},
                                             indent=1) + "\n")


if __name__ == "__main__":
    main()
