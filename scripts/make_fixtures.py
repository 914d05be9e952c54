#!/usr/bin/env python3
"""Makes folders like those in tests/fixtures/models/: real architectures with tiny random weights, written by the two
ONNX exporters of PyTorch, with PyTorch's own f32 results beside them.

    make_fixtures.py OUT [NAME.VARIANT ...]     for example: make_fixtures.py out bert.ts17 gpt2_step.dyn20

A variant is how the file is written, and the opset:
    ts17       TorchScript exporter          dyn20      dynamo exporter
    half17     TorchScript, f16 weights      bf20       dynamo, bf16 weights
    ort17      TorchScript, then onnxruntime's offline transformer optimizer (com.microsoft operators)
    int8dyn17  TorchScript, then onnxruntime's dynamic quantization; the expected results are onnxruntime's

Needs torch 2.11, transformers 5.17, onnx and onnxruntime; it is run by hand when a fixture is added, never by the tests.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import typing

import numpy as np
import onnx
import onnxruntime
import torch
import transformers as hf

BATCH, SEQ, VOCAB, HIDDEN, LAYERS, HEADS, FEED_FORWARD, KV_HEADS, HEAD_DIM = 2, 16, 99, 32, 2, 4, 64, 2, 8
COMMON = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
              intermediate_size=FEED_FORWARD, max_position_embeddings=64)
DECODER = dict(**COMMON, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GPT2 = dict(vocab_size=VOCAB, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_positions=64)


@dataclasses.dataclass
class Case:
    """One architecture: how to make the model, how to call it, and its inputs with their dynamic axes."""

    make: typing.Callable[[], torch.nn.Module]
    call: typing.Callable
    inputs: dict[str, torch.Tensor]
    axes: dict[str, dict[int, str]]  # input name: {axis: dim name}


class Positional(torch.nn.Module):
    """Calls a model with positional tensors and returns a flat tuple of tensors, as exporters want it."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model, call

    def forward(self, *tensors):
        result = self.call(self.model, *tensors)
        return result if isinstance(result, tuple) else (result,)


def cases():
    """All architectures by name. Inputs are drawn once, in this order, so every variant of a case sees the same ones."""
    torch.manual_seed(0)
    ids = torch.randint(3, VOCAB, (BATCH, SEQ))
    mask = torch.ones(BATCH, SEQ, dtype=torch.long)
    mask[1, 11:] = 0  # the second row is padded
    pixels = torch.randn(BATCH, 3, 32, 32)
    mel = torch.randn(BATCH, 16, 40)
    wave = torch.randn(BATCH, 400)

    def past(heads):
        names = [f"past_key_values.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
        return {name: torch.randn(BATCH, heads, 8, HEAD_DIM) for name in names}

    text = {"input_ids": ids, "attention_mask": mask}
    text_axes = {name: {0: "batch", 1: "seq"} for name in text}

    def encoder(model, input_ids, attention_mask):
        return model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).last_hidden_state

    def language_model(model, input_ids, attention_mask):
        return model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits

    def step(model, input_ids, attention_mask, *past_key_values):
        """One decoding step: the grown cache comes back as outputs."""
        cache = hf.DynamicCache()
        for layer in range(LAYERS):
            cache.update(past_key_values[2 * layer], past_key_values[2 * layer + 1], layer)
        output = model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        grown = [tensor for layer in output.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (output.logits, *grown)

    def step_case(make, heads):
        inputs = {"input_ids": ids[:, :3].clone(), "attention_mask": torch.ones(BATCH, 11, dtype=torch.long), **past(heads)}
        axes = {name: {0: "batch", 2: "past"} for name in inputs}
        axes["input_ids"], axes["attention_mask"] = {0: "batch", 1: "seq"}, {0: "batch", 1: "total"}
        return Case(make, step, inputs, axes)

    def seq2seq(model, input_ids, attention_mask, decoder_input_ids):
        return model(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=decoder_input_ids,
                     use_cache=False).logits

    distilbert = hf.DistilBertConfig(vocab_size=VOCAB, dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS,
                                     hidden_dim=FEED_FORWARD, max_position_embeddings=64)
    vit = hf.ViTConfig(hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                       intermediate_size=FEED_FORWARD, image_size=32, patch_size=8)
    whisper = hf.WhisperConfig(vocab_size=VOCAB, d_model=HIDDEN, encoder_layers=LAYERS, decoder_layers=LAYERS,
                               encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
                               encoder_ffn_dim=FEED_FORWARD, decoder_ffn_dim=FEED_FORWARD, num_mel_bins=16,
                               max_source_positions=20, max_target_positions=32, pad_token_id=0, bos_token_id=1,
                               eos_token_id=2, decoder_start_token_id=1)
    t5 = hf.T5Config(vocab_size=VOCAB, d_model=HIDDEN, d_kv=HEAD_DIM, d_ff=FEED_FORWARD, num_layers=LAYERS,
                     num_decoder_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0, pad_token_id=0)
    swin = hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)
    wav2vec2 = hf.Wav2Vec2Config(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS,
                                 num_attention_heads=HEADS, intermediate_size=FEED_FORWARD, conv_dim=(16, 16),
                                 conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
                                 num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2)
    gemma2 = hf.Gemma2Config(**DECODER, sliding_window=8, query_pre_attn_scalar=8)
    image_axes = {"pixel_values": {0: "batch"}}

    def image(model, pixel_values):
        return model(pixel_values=pixel_values).last_hidden_state

    return {
        "bert": Case(lambda: hf.BertModel(hf.BertConfig(**COMMON)), encoder, text, text_axes),
        "distilbert": Case(lambda: hf.DistilBertModel(distilbert), encoder, text, text_axes),
        "vit": Case(lambda: hf.ViTModel(vit), image, {"pixel_values": pixels}, image_axes),
        "swin": Case(lambda: hf.SwinModel(swin), image, {"pixel_values": pixels}, {"pixel_values": {}}),
        "wav2vec2": Case(lambda: hf.Wav2Vec2Model(wav2vec2),
                         lambda model, wave: model(input_values=wave).last_hidden_state,
                         {"input_values": wave}, {"input_values": {}}),
        "whisper_encoder": Case(lambda: hf.WhisperModel(whisper).encoder,
                                lambda model, mel: model(input_features=mel).last_hidden_state,
                                {"input_features": mel}, {"input_features": {0: "batch"}}),
        "t5_seq2seq": Case(lambda: hf.T5ForConditionalGeneration(t5), seq2seq,
                           {**text, "decoder_input_ids": ids[:, :6].clone()},
                           {**text_axes, "decoder_input_ids": {0: "batch", 1: "dseq"}}),
        "gpt2": Case(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)), language_model, text, text_axes),
        "gpt2_step": step_case(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**GPT2)), HEADS),
        "llama": Case(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER)), language_model, text, text_axes),
        "llama_step": step_case(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER)), KV_HEADS),
        "gemma2": Case(lambda: hf.Gemma2ForCausalLM(gemma2), language_model, text, text_axes),
        "qwen3": Case(lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**DECODER)), language_model, text, text_axes),
    }


def export(model, inputs, axes, exporter, opset, path):
    options = dict(opset_version=opset, input_names=list(inputs))
    tensors = tuple(inputs.values())
    with torch.no_grad():
        outputs = [f"output_{i}" for i in range(len(model(*tensors)))]
        if exporter == "ts":
            torch.onnx.export(model, tensors, path, dynamo=False, output_names=outputs, dynamic_axes=axes,
                              do_constant_folding=True, **options)
        else:
            dynamic = tuple({axis: torch.export.Dim.DYNAMIC for axis in axes[name]} for name in inputs)
            torch.onnx.export(model, tensors, path, dynamo=True, output_names=outputs, external_data=False, optimize=True,
                              dynamic_shapes=(dynamic,) if any(dynamic) else None, **options)


def without_machine_paths(model):
    """The dynamo exporter writes stack traces into the file; this cuts the folders of the machine out of them."""
    graphs = [model.graph, *model.functions]
    for holder in [model, *graphs, *(node for graph in graphs for node in graph.node), *model.graph.value_info,
                   *model.graph.input, *model.graph.output, *model.graph.initializer]:
        for entry in holder.metadata_props:
            entry.value = re.sub(r'"/[^"\n]*/site-packages/', '"', entry.value)
            entry.value = re.sub(r'"/[^"\n]*/(?=[^"/\n]+\.py")', '"', entry.value)
    return model


# variant: (exporter, dtype of weights and float inputs)
VARIANTS = {
    "ts": ("ts", torch.float32), "half": ("ts", torch.float16), "ort": ("ts", torch.float32),
    "int8dyn": ("ts", torch.float32), "dyn": ("dyn", torch.float32), "bf": ("dyn", torch.bfloat16),
}


def to_numpy(tensor):
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def make(out, case, name, variant, opset):
    torch.manual_seed(1)
    exporter, dtype = VARIANTS[variant]
    model = Positional(case.make().eval(), case.call).eval()
    with torch.no_grad():
        expected = [tensor.numpy() for tensor in model(*case.inputs.values())]
    folder = out / f"{name}.{variant}{opset}"
    folder.mkdir(parents=True, exist_ok=True)
    file = str(folder / "model.onnx")
    cast = {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in case.inputs.items()}
    export(model.to(dtype), cast, case.axes, exporter, opset, file)
    if variant == "ort":
        from onnxruntime.transformers import optimizer

        optimizer.optimize_model(file, model_type="bert", num_heads=HEADS, hidden_size=HIDDEN,
                                 opt_level=0).save_model_to_file(file)
    if variant == "int8dyn":
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(file, file)
    exported = without_machine_paths(onnx.load(file))
    onnx.save(exported, file)

    inputs = {name: to_numpy(tensor) for name, tensor in cast.items()}
    try:
        results = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, inputs)
        error = float(max(np.abs(got - want).max() for got, want in zip(results, expected)))
    except Exception as refusal:  # onnxruntime's CPU kernels lack some operators and dtypes; PyTorch is the reference
        results, error = None, type(refusal).__name__
    if variant == "int8dyn":
        expected = results
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "outputs.npz", **{value.name: array for value, array in zip(exported.graph.output, expected)})
    meta = {
        "name": name,
        "exporter": {"ts": "torchscript", "dyn": "dynamo"}[exporter],
        "opset": [(opset.domain, opset.version) for opset in exported.opset_import],
        "ir": exported.ir_version,
        "nodes": len(exported.graph.node),
        "ops": sorted({node.op_type for node in exported.graph.node}),
        "ort_cpu_max_abs_err": error,
        "inputs": {name: [str(array.dtype), list(array.shape)] for name, array in inputs.items()},
        "torch": torch.__version__,
        "transformers": hf.__version__,
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n")
    print(f"{folder}: {meta['nodes']} nodes, onnxruntime: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME.VARIANT", help="default: the folders of tests/fixtures/models")
    arguments = parser.parse_args()
    fixtures = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/models"
    for wanted in arguments.names or sorted(folder.name for folder in fixtures.iterdir()):
        match = re.fullmatch(rf"(\w+)\.({'|'.join(VARIANTS)})(\d+)", wanted)
        if not match or match[1] not in cases():
            parser.error(f"'{wanted}': the architectures are {', '.join(cases())}, "
                         f"the variants {', '.join(VARIANTS)}, each with an opset")
        make(arguments.out, cases()[match[1]], match[1], match[2], int(match[3]))


if __name__ == "__main__":
    main()
