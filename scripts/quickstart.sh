#!/usr/bin/env bash
# From a bare machine to the embeddings of three sentences: sets up, builds, imports a pretrained model, compiles it for
# GPUs and for the CPU device, runs it on what is here, and checks the result against onnxruntime. Leaves all of it in out/.
#
# usage: scripts/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake --preset release > /dev/null
cmake --build --preset release --target rtx-import rtx-compile rtx-run

out=out/quickstart
python=.venv/bin/python
export CUDA_HOME="$PWD/.deps/cuda" PATH="$PWD/build/release/cli:$PATH"
mkdir -p $out
$python scripts/fetch_file.py quickstart-model $out/minilm.onnx
$python scripts/fetch_file.py quickstart-tokenizer $out/tokenizer.json
$python scripts/quickstart_embed.py prepare $out/tokenizer.json $out

show() { # a command, then the command's own output
  printf '\n$ %s\n' "$*"
  "$@"
}
show rtx-import $out/minilm.onnx -o $out/minilm.rtxir
show rtx-compile $out/minilm.rtxir --arch sm_120,sm_90a -o $out/minilm.rtxpkg
show rtx-compile $out/minilm.rtxir --arch cpu -o $out/minilm_cpu.rtxpkg

device=cpu package=$out/minilm_cpu.rtxpkg
if rtx-run --list-devices --quiet | grep -qE '^cuda:0 +sm_(90|120)'; then
  device=cuda:0 package=$out/minilm.rtxpkg
fi
show rtx-run $package --device $device --input input_ids=@$out/input_ids.npy \
  --input attention_mask=@$out/attention_mask.npy --output 461=@$out/embeddings.npy
echo
$python scripts/quickstart_embed.py report $out/minilm.onnx $out
