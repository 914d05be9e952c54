#!/usr/bin/env python3
"""An encoder of BERT's shape on one GPU, in one run: rtx packages and PyTorch with the same weights.

    compare_pytorch.py --tools build/release/cli [--sizes 1x128 8x384] [--compile] [--out FILE.json]

Needs torch, numpy and onnx. The model is that of make_encoder.py with 12 layers. rtx: `rtx-compile --amp=bf16`, both
determinism levels, device time of `rtx-run --iterations`, the median. PyTorch: a bf16 module that calls
scaled_dot_product_attention, in a CUDA graph, and with --compile as torch.compile(mode="max-autotune") makes it; median
of 50 replays. Both run after warm-up on random inputs with all tokens attended. The norm of the difference of outputs to
a float32 run of PyTorch is printed beside the times.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy
import onnx
import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

HIDDEN, HEADS, LAYERS = 768, 12, 12


class Encoder(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.names = {}
        for name, value in weights.items():
            self.names[name] = name.replace(".", "_")
            self.register_buffer(self.names[name], value)

    def weight(self, name):
        return getattr(self, self.names[name])

    def linear(self, x, name):
        return torch.addmm(self.weight(f"{name}.bias"), x.flatten(0, 1), self.weight(f"{name}.weight")).view(
            *x.shape[:2], -1)

    def norm(self, x, name):
        return nn.functional.layer_norm(x, [HIDDEN], self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), 1e-12)

    def forward(self, ids):
        x = self.weight("embeddings.word")[ids] + self.weight("embeddings.position")[: ids.shape[1]]
        x = self.norm(x, "embeddings.norm")
        for layer in range(LAYERS):
            name = f"layer.{layer}"
            q, k, v = (self.linear(x, f"{name}.attention.{part}").unflatten(2, (HEADS, -1)).transpose(1, 2)
                       for part in ("query", "key", "value"))
            context = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = self.norm(self.linear(context, f"{name}.attention.output") + x, f"{name}.norm1")
            inner = gelu(self.linear(x, f"{name}.ffn1"))
            x = self.norm(self.linear(inner, f"{name}.ffn2") + x, f"{name}.norm2")
        return x


def time_replays(run, count=50):
    times = []
    for _ in range(10):
        run()
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def in_graph(model, ids):
    with torch.no_grad():
        for _ in range(3):
            model(ids)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(ids)
    return graph.replay


def command(arguments):
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout + done.stderr


def rtx(tools, folder, model, level, batch, length, arch, ids):
    package = folder / f"{level}.{batch}.{length}"
    command([tools / "rtx-compile", model, "--arch", arch, f"--determinism={level}", "--amp=bf16", "--dim",
             f"batch=1:{batch}:64", "--dim", f"sequence=1:{length}:512", "-o", package])
    numpy.savez(folder / "inputs.npz", input_ids=ids, attention_mask=numpy.ones_like(ids))
    text = command([tools / "rtx-run", package, "--device", "cuda:0", "--inputs", folder / "inputs.npz", "--outputs",
                    folder / "outputs.npz", "--iterations", "50", "--warmup", "10"])
    row = re.search(r"^device\s+(\S+)\s+(\S+)\s+(\S+)", text, re.MULTILINE)
    return float(row.group(3)), numpy.load(folder / "outputs.npz")["last_hidden_state"]


def distance(got, want):
    return float(numpy.linalg.norm(got - want) / numpy.linalg.norm(want))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--sizes", nargs="*", default=["1x128", "8x384"], help="BATCHxLENGTH")
    parser.add_argument("--compile", action="store_true", help="time torch.compile too (minutes)")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "encoder.onnx"
        command([sys.executable, pathlib.Path(__file__).with_name("make_encoder.py"), model, "--layers", LAYERS])
        weights = {tensor.name: torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
                   for tensor in onnx.load(model).graph.initializer}
        whole = Encoder(weights).cuda()
        half = Encoder({key: value.bfloat16() for key, value in weights.items()}).cuda()
        for size in arguments.sizes:
            batch, length = map(int, size.split("x"))
            ids = torch.randint(0, 30522, (batch, length), device="cuda", generator=torch.Generator("cuda").manual_seed(1))
            with torch.no_grad():
                want = whole(ids).cpu().numpy()
                row = {"batch": batch, "length": length, "pytorch_graph_ms": time_replays(in_graph(half, ids)),
                       "pytorch_norm": distance(half(ids).float().cpu().numpy(), want)}
                if arguments.compile:
                    fast = torch.compile(half, mode="max-autotune")
                    row["pytorch_compile_ms"] = time_replays(lambda: fast(ids))
            for level in ("run_to_run", "batch_invariant"):
                milliseconds, got = rtx(arguments.tools, folder, model, level, batch, length, arch, ids.cpu().numpy())
                row[f"rtx_{level}_ms"], row[f"rtx_{level}_norm"] = milliseconds, distance(got, want)
            best = min(value for key, value in row.items() if key.startswith("pytorch") and key.endswith("_ms"))
            row["speedup"] = best / row["rtx_run_to_run_ms"]
            rows.append(row)
            print(json.dumps(row), flush=True)
    if arguments.out:
        record = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                  "rtx": command([arguments.tools / "rtx-compile", "--version"]).strip(),
                  "command": " ".join(["compare_pytorch.py", *sys.argv[1:]]), "rows": rows}
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
