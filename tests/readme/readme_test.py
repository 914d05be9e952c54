#!/usr/bin/env python3
"""What README.md shows is true: its example is the file that is built here, and runs.

    readme_test.py ROOT TOOLS EMBED
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np


def main():
    root, tools, embed = (pathlib.Path(argument) for argument in sys.argv[1:])
    blocks = re.findall(r"```cpp\n(.*?)```", (root / "README.md").read_text(), re.S)
    if blocks != [(root / "tests/readme/embed.cpp").read_text()]:
        print("README.md: error: its C++ example is not tests/readme/embed.cpp: copy that file there", file=sys.stderr)
        return 1

    model = root / "tests/fixtures/models/vit.dyn20"
    with tempfile.TemporaryDirectory() as folder:
        package, pixels = f"{folder}/vit.rtxpkg", f"{folder}/pixels.npy"
        np.save(pixels, np.load(model / "inputs.npz")["pixel_values"])
        subprocess.run([tools / "rtx-compile", model / "model.onnx", "--arch", "cpu", "-o", package], check=True)
        printed = subprocess.run([embed, package, pixels], check=True, capture_output=True, text=True).stdout
    [output] = np.load(model / "outputs.npz").values()
    expected = f"f32{list(output.shape)}\n"
    if printed != expected:
        print(f"readme_embed: error: printed {printed!r}, not {expected!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
