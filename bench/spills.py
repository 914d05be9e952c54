#!/usr/bin/env python3
"""Kernels of real models that spill registers, on every architecture; needs NVRTC and no GPU.

    spills.py --tools build/release/cli DIR [--archs sm_80,sm_89,sm_90a,sm_120] [--out FILE] [-- OPTION...]

DIR holds folders with a model.onnx each; OPTIONs are for rtx-compile, such as --amp=fp16. Prints each distinct kernel that
spills, with its plan, architecture, registers and bytes, and exits with 1 if there is one.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def resources_of(tools, model, archs, options):
    """(kernel, plan, resources) of each kernel that is compiled for a GPU."""
    with tempfile.TemporaryDirectory() as folder:
        package = f"{folder}/package"
        subprocess.run([tools / "rtx-compile", model / "model.onnx", "--arch", archs, "-j", "2", *options, "-o", package],
                       check=True, stderr=subprocess.DEVNULL)
        listing = json.loads(subprocess.run([tools / "rtx-inspect", package, "--json"], check=True,
                                            capture_output=True).stdout)
    return [(kernel["name"], kernel["plan"], resources) for kernel in listing["kernels"] if kernel["launch"]
            for resources in kernel["launch"]["resources"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--archs", default="sm_80,sm_89,sm_90a,sm_120")
    parser.add_argument("--out", type=pathlib.Path)
    arguments, options = parser.parse_known_args()
    options = [option for option in options if option != "--"]
    models = sorted(path.parent for path in arguments.models.glob("*/model.onnx"))
    kernels, spilling = set(), {}
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        work = pool.map(lambda model: resources_of(arguments.tools, model, arguments.archs, options), models)
        for model, found in zip(models, work):
            for name, plan, resources in found:
                kernels.add((name, resources["arch"]))
                if resources["spill_bytes"]:
                    spilling.setdefault((name, resources["arch"]), {
                        "model": model.name, "kernel": name, "plan": plan, "arch": resources["arch"],
                        "registers": resources["registers"], "spill_bytes": resources["spill_bytes"]})
    for row in spilling.values():
        print(*row.values())
    print(f"{len(models)} models, {len(kernels)} distinct kernels and architectures, {len(spilling)} spill")
    if arguments.out:
        record = {"archs": arguments.archs, "options": options, "models": len(models), "kernels": len(kernels),
                  "spilling": list(spilling.values())}
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
