#!/usr/bin/env python3
"""Times the tools on a model of real size and prints one table; --json keeps it.

    measure.py --tools build/release/cli [--json FILE] [--pretrained model.onnx]

Makes a 12-layer, 768-wide encoder (bench/make_encoder.py, 436 MB) in a temporary folder. Wall seconds, and the peak
resident memory of the tool's own process. Run it on an idle machine: it takes about a minute on 2 cores.
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

HERE = pathlib.Path(__file__).resolve().parent


def run(command, **environment):
    """(wall seconds, peak MiB of the largest process, stdout)"""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, env={**os.environ, **environment})
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        if status != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{errors.decode()}")
        out.seek(0)
        return seconds, usage.ru_maxrss / 1024, out.read().decode()


def best(repeats, command):
    return min((run(command) for _ in range(repeats)), key=lambda result: result[0])


def median_ms(output):
    """The median of rtx-run's timing table."""
    header, total = (line.split() for line in output.splitlines() if line.startswith(("time (ms)", "total")))
    return float(total[-(len(header) - header.index("median"))])


def measure(tools, work, pretrained):
    rows = []

    def row(what, value, unit, peak=None, limit=None):
        rows.append({"what": what, "value": round(value, 3), "unit": unit, "peak_mib": peak and round(peak), "goal": limit})

    model, module, package = work / "encoder.onnx", work / "encoder.rtxir", work / "encoder.rtxpkg"
    subprocess.run([sys.executable, HERE / "make_encoder.py", model], check=True)
    weights = model.stat().st_size / 2**20

    imported = best(2, [tools / "rtx-import", model, "-o", module])
    compiled = best(2, [tools / "rtx-compile", module, "--arch", "cpu", "-o", package])
    row("rtx-import, 12-layer encoder", imported[0], "s", imported[1])
    row("rtx-compile --arch cpu", compiled[0], "s", compiled[1])
    row("import + compile --arch cpu", imported[0] + compiled[0], "s", max(imported[1], compiled[1]),
        f"3 s; {weights + 300:.0f} MiB")
    direct = best(2, [tools / "rtx-compile", model, "--arch", "cpu", "-o", package])
    row("rtx-compile encoder.onnx --arch cpu (no file between)", direct[0], "s", direct[1])

    cache = work / "cache"
    gpu = [tools / "rtx-compile", module, "--arch", "sm_120", "--kernel-cache", cache, "-o", work / "gpu.rtxpkg"]
    cold = run(gpu)
    row("rtx-compile --arch sm_120, cold kernel cache", cold[0], "s", cold[1], "25 s")
    warm = best(2, gpu)
    row("rtx-compile --arch sm_120, warm kernel cache", warm[0], "s", warm[1], "2 s")

    if pretrained:
        small = work / "pretrained.rtxpkg"
        run([tools / "rtx-compile", pretrained, "--arch", "cpu", "-o", small])
        timed = run([tools / "rtx-run", small, "--device", "cpu", "--random-inputs", "--dim", "batch_size=1", "--dim",
                     "sequence_length=128", "--iterations", "20", "--warmup", "3"])
        row("pretrained model, batch 1, sequence 128, CPU device", median_ms(timed[2]) / 1000, "s", timed[1], "0.3 s")

    stripped = work / "rtx-run"
    subprocess.run(["strip", "-o", stripped, tools / "rtx-run"], check=True)
    row("rtx-run, stripped", stripped.stat().st_size / 2**20, "MiB", None, "8 MiB")
    start = best(5, [stripped, "--list-devices"])
    row("rtx-run --list-devices (start)", start[0], "s", start[1], "0.05 s")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="folder of the built tools")
    parser.add_argument("--pretrained", type=pathlib.Path, help="ONNX model with dims batch_size and sequence_length")
    parser.add_argument("--json", type=pathlib.Path, help="write the table to this file too")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="rtx-measure-"))
    try:
        rows = measure(arguments.tools.resolve(), work, arguments.pretrained)
    finally:
        shutil.rmtree(work)
    for r in rows:
        peak = f"{r['peak_mib']} MiB" if r["peak_mib"] else ""
        print(f"{r['what']:<56} {r['value']:>9.3f} {r['unit']:<4} {peak:>9}  {('goal ' + r['goal']) if r['goal'] else ''}")
    if arguments.json:
        version = subprocess.run([arguments.tools / "rtx-run", "--version"], capture_output=True, text=True, check=True)
        processor = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                         platform.machine())
        command = "bench/measure.py --tools build/release/cli" + (" --pretrained MODEL.onnx" if arguments.pretrained else "")
        report = {"tool": version.stdout.strip(), "command": command,
                  "machine": f"{processor}, {os.cpu_count()} cores", "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
