#!/usr/bin/env python3
"""The two ends of scripts/quickstart.sh: sentences into token ids, and embeddings into something a person understands.

    quickstart_embed.py prepare TOKENIZER FOLDER    writes FOLDER/input_ids.npy and FOLDER/attention_mask.npy
    quickstart_embed.py report MODEL.ONNX FOLDER    compares FOLDER/embeddings.npy with onnxruntime, prints similarities
"""

import pathlib
import sys

import numpy as np

SENTENCES = [
    "A cat sits on the warm window sill.",
    "A kitten is resting by the sunny window.",
    "The central bank raised interest rates again.",
]
OUTPUT = "461"  # the exporter's name of the pooled sentence embedding, [batch, 384]
TOLERANCE = 1e-5  # of the relative error norm, f32


def prepare(tokenizer_file, folder):
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(SENTENCES)
    np.save(folder / "input_ids.npy", np.array([sentence.ids for sentence in encoded], dtype=np.int64))
    np.save(folder / "attention_mask.npy", np.array([sentence.attention_mask for sentence in encoded], dtype=np.int64))


def report(model, folder):
    import onnxruntime

    inputs = {name: np.load(folder / f"{name}.npy") for name in ("input_ids", "attention_mask")}
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    [expected] = session.run([OUTPUT], inputs)
    embeddings = np.load(folder / "embeddings.npy")
    if embeddings.shape != expected.shape or embeddings.dtype != expected.dtype:
        print(f"error: got {embeddings.dtype}{list(embeddings.shape)}, onnxruntime computes "
              f"{expected.dtype}{list(expected.shape)}", file=sys.stderr)
        return 10
    error = np.linalg.norm(embeddings.astype(np.float64) - expected) / np.linalg.norm(expected.astype(np.float64))
    print(f"difference from onnxruntime: {error:.1e} of the norm (at most {TOLERANCE:.0e} is right)")
    if not error <= TOLERANCE:
        print("error: the results differ from onnxruntime's", file=sys.stderr)
        return 10

    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    print("\nhow similar the sentences are (1 is the same meaning):")
    for first in range(len(SENTENCES)):
        for second in range(first + 1, len(SENTENCES)):
            print(f"  {unit[first] @ unit[second]:5.2f}  {SENTENCES[first]}  /  {SENTENCES[second]}")
    return 0


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("prepare", "report"):
        print(__doc__, file=sys.stderr)
        return 2
    action = {"prepare": prepare, "report": report}[sys.argv[1]]
    return action(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])) or 0


if __name__ == "__main__":
    sys.exit(main())
