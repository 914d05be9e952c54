#!/usr/bin/env python3
"""Times rtx-import on what is large about models: weights, nodes, many small files. --json keeps the table.

    measure_import.py --tools build/release/cli [--cases DIR...] [--gib 4] [--json FILE]

- Weights: a model with external data, many tensors of 4 to 64 MiB and one of 1 GiB, imported in turn with `cp` of its
  data file, each three times, the best of each counts. The source is in the page cache (it was just written and read).
  Both end with what they write on the disk: rtx-import syncs its files, so `cp` is followed by `sync` of the copy.
- Nodes: graphs of 12 500 to 100 000 nodes of two shapes, a chain of elementwise operators, and transformer-like blocks
  that compute their shapes, as exporters write them.
- Cases: rtx-conformance over DIR... (the folders of operator cases) on the CPU device.

Needs onnx and numpy, and twice --gib in the temporary folder. Takes about three minutes on 2 cores.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

from measure import run

MIB = 1 << 20

if sys.argv[1:2] == ["write"]:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper


def save(nodes, initializers, inputs, outputs, path):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def value(name, shape, dtype=None):
    return helper.make_tensor_value_info(name, dtype or TensorProto.FLOAT, shape)


def write(shape, path, size):
    """Writes a model in a process of its own: the peak memory of a child is at least what its parent has at the start."""
    subprocess.run([sys.executable, __file__, "write", shape, path, str(size)], check=True)


def write_large_model(path, gib):
    """`gib` GiB of f32 in one data file beside the model: 1 GiB in one tensor, the rest in tensors of 4 to 64 MiB."""
    sizes = [1024]  # MiB
    while sum(sizes) < gib * 1024:
        sizes.append(min((4, 8, 16, 32, 64)[len(sizes) % 5], gib * 1024 - sum(sizes)))
    block = np.random.default_rng(1).standard_normal(MIB + 4096, dtype=np.float32)
    nodes, initializers, total, offset = [], [], None, 0
    with open(path.with_suffix(".bin"), "wb") as data:
        for i, size in enumerate(sizes):
            tensor = TensorProto(name=f"layers.{i}.weight", data_type=TensorProto.FLOAT, dims=[size * 256, 1024],
                                 data_location=TensorProto.EXTERNAL)
            entries = {"location": path.with_suffix(".bin").name, "offset": offset, "length": size * MIB}
            for key, text in entries.items():
                tensor.external_data.add(key=key, value=str(text))
            initializers.append(tensor)
            for piece in range(size // 4):
                start = (i * 64 + piece) % 4096
                data.write(memoryview(block[start:start + MIB]).cast("B"))
            offset += size * MIB
            nodes.append(helper.make_node("Gather", [tensor.name, "ids"], [f"rows_{i}"]))
            total = f"sum_{i}" if total else f"rows_{i}"
            if i:
                nodes.append(helper.make_node("Add", [f"rows_{i}", f"sum_{i - 1}" if i > 1 else "rows_0"], [total]))
        os.fsync(data.fileno())
    save(nodes, initializers, [value("ids", ["n"], TensorProto.INT64)], [value(total, ["n", 1024])], path)


def write_chain(path, count):
    nodes, x = [], "x"
    for i in range(count):
        inputs = [x, "x"] if i % 3 == 1 else [x]
        nodes.append(helper.make_node(("Relu", "Add", "Tanh")[i % 3], inputs, [f"v{i}"], name=f"node_{i}"))
        x = f"v{i}"
    save(nodes, [], [value("x", ["batch", 64])], [value(x, ["batch", 64])], path)


def write_blocks(path, count):
    """Blocks that split the last axis into heads by sizes that are computed, multiply, and merge it again."""
    nodes, x, number = [], "x", 0

    def op(op_type, inputs, **attributes):
        nonlocal number
        number += 1
        nodes.append(helper.make_node(op_type, inputs, [f"v{number}"], name=f"/layer/{op_type}_{number}", **attributes))
        return f"v{number}"

    def number_of(value):
        return op("Constant", [], value=numpy_helper.from_array(np.array(value, np.int64)))

    while len(nodes) < count:
        sizes = [op("Unsqueeze", [op("Gather", [op("Shape", [x]), number_of(axis)], axis=0), number_of([0])])
                 for axis in (0, 1)]
        split = op("Concat", sizes + [number_of([4]), number_of([16])], axis=0)
        heads = op("Transpose", [op("Reshape", [x, split])], perm=[0, 2, 1, 3])
        scores = op("Softmax", [op("MatMul", [heads, op("Transpose", [heads], perm=[0, 1, 3, 2])])], axis=-1)
        merged = op("Transpose", [op("MatMul", [scores, heads])], perm=[0, 2, 1, 3])
        back = op("Concat", sizes + [number_of([-1])], axis=0)
        x = op("Add", [op("Reshape", [merged, back]), x])
    save(nodes, [], [value("x", ["batch", "seq", 64])], [value(x, ["batch", "seq", 64])], path)


def copy(source, target):
    """(seconds of cp, seconds until the copy is on the disk)"""
    start = time.monotonic()
    subprocess.run(["cp", source, target], check=True)
    copied = time.monotonic() - start
    subprocess.run(["sync", target], check=True)
    return copied, time.monotonic() - start


def measure_weights(tools, work, gib, row):
    model, module = work / "large.onnx", work / "large.rtxir"
    data, target = model.with_suffix(".bin"), work / "copy.bin"
    write("large", model, gib)
    subprocess.run(["cat", data], stdout=subprocess.DEVNULL, check=True)
    copies, imports = [], []
    for _ in range(3):
        copies.append(copy(data, target))
        target.unlink()
        imports.append(run([tools / "rtx-import", model, "-o", module]))
        module.with_suffix(".safetensors").unlink()
    for path in (data, model, module):
        path.unlink()
    plain, synced = min(c[0] for c in copies), min(c[1] for c in copies)
    seconds, peak = min(i[0] for i in imports), max(i[1] for i in imports)
    row(f"cp of {gib} GiB of weights", plain, "s")
    row(f"cp of {gib} GiB of weights, and sync", synced, "s")
    row(f"rtx-import of a model with {gib} GiB of weights", seconds, "s", peak, "300 MiB")
    row("speed of rtx-import, of that of cp and sync", 100 * synced / seconds, "%", None, "80 %")


def measure_nodes(tools, work, row):
    for shape in ("chain", "blocks"):
        for count in (12500, 25000, 50000, 100000):
            model = work / "graph.onnx"
            write(shape, model, count)
            seconds, peak, _ = min((run([tools / "rtx-import", model, "-o", work / "graph.rtxir"]) for _ in range(2)),
                                   key=lambda result: result[0])
            row(f"rtx-import, {shape} of {count} nodes", seconds, "s", peak, "6 s" if count == 100000 else None)
            model.unlink()


def measure_cases(tools, cases, row):
    start = time.monotonic()
    jobs = str(os.cpu_count())
    finished = subprocess.run([tools / "rtx-conformance", *cases, "--device", "cpu", "-j", jobs], capture_output=True)
    if finished.returncode not in (0, 10):  # 10: some cases fail
        sys.exit(finished.stderr.decode())
    count = sum(map(int, finished.stdout.decode().splitlines()[-1].replace(",", "").split()[::2]))
    row(f"rtx-conformance, {count} operator cases", time.monotonic() - start, "s", None, "120 s")


def main():
    if sys.argv[1:2] == ["write"]:
        writers = {"large": write_large_model, "chain": write_chain, "blocks": write_blocks}
        return writers[sys.argv[2]](pathlib.Path(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="folder of the built tools")
    parser.add_argument("--cases", type=pathlib.Path, nargs="+", help="folders of operator cases")
    parser.add_argument("--gib", type=int, default=4, help="size of the weights (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="write the table to this file too")
    arguments = parser.parse_args()
    tools = arguments.tools.resolve()
    rows = []

    def row(what, number, unit, peak=None, goal=None):
        rows.append({"what": what, "value": round(number, 3), "unit": unit, "peak_mib": peak and round(peak), "goal": goal})
        peak_text = f"{rows[-1]['peak_mib']} MiB" if peak else ""
        print(f"{what:<56} {number:>9.3f} {unit:<4} {peak_text:>9}  {('goal ' + goal) if goal else ''}", flush=True)

    work = pathlib.Path(tempfile.mkdtemp(prefix="rtx-measure-"))
    try:
        measure_nodes(tools, work, row)
        measure_weights(tools, work, arguments.gib, row)
    finally:
        shutil.rmtree(work)
    if arguments.cases:
        measure_cases(tools, arguments.cases, row)
    if arguments.json:
        version = subprocess.run([tools / "rtx-import", "--version"], capture_output=True, text=True, check=True)
        processor = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                         platform.machine())
        command = f"bench/measure_import.py --tools build/{tools.parent.name}/cli" + (" --cases DIR..." if arguments.cases else "")
        report = {"tool": version.stdout.strip(), "command": command,
                  "machine": f"{processor}, {os.cpu_count()} cores",
                  "page_cache": "the weights were in the page cache before each copy and import; the targets were new",
                  "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
