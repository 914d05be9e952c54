#!/usr/bin/env python3
"""Makes the seeds of tests/fuzz/corpus: small valid files of every kind that a fuzz target reads.

    .venv/bin/python scripts/make_fuzz_corpus.py [RTX_COMPILE]

ONNX seeds are node tests of the ONNX project, one of each operator and some of the odd forms; IR text comes from
tests/golden; manifests from rtx-compile (default: build/ci/cli/rtx-compile) on tests/fixtures. Files that a fuzzer found
(crash-*, slow-*) are left alone.
"""

import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
LARGEST_BYTES = 6000


def write(target, name, contents):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed_{name}").write_bytes(contents)


def operator_models():
    """Of the node tests of each operator the smallest, and the smallest of those with the most attributes."""
    best = {}

    def offer(name, rank, case):
        if name not in best or rank < best[name][0]:
            best[name] = (rank, case)

    for case in collect_testcases(None):
        if case.model is None or case.model.ByteSize() > LARGEST_BYTES:
            continue
        for node in case.model.graph.node:
            offer(node.op_type, case.model.ByteSize(), case)
            offer(node.op_type + ".attributes", (-len(node.attribute), case.model.ByteSize()), case)
    models = {}
    for name, (_, case) in best.items():
        if case.model.SerializeToString() not in models.values():
            models[name] = case.model.SerializeToString()
        constant = with_constants(case)
        if constant is not None and constant.SerializeToString() not in models.values():
            models[name + ".constants"] = constant.SerializeToString()
    return models


def with_constants(case):
    """The model with integer inputs (axes, shapes, indices) as initializers, which lets rtx import it; None if none."""
    if not case.data_sets:
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(case.model)
    arrays = dict(zip((value.name for value in copy.graph.input), case.data_sets[0][0]))
    keep = [value for i, value in enumerate(copy.graph.input)
            if i == 0 or getattr(arrays.get(value.name), "dtype", None) not in (numpy.int64, numpy.int32)]
    names = {value.name for value in copy.graph.input} - {value.name for value in keep}
    if not names:
        return None
    copy.graph.ClearField("input")
    copy.graph.input.extend(keep)
    copy.graph.initializer.extend(numpy_helper.from_array(arrays[name], name) for name in sorted(names))
    return copy


# Operators of com.microsoft: inputs ("" left out; a list is a shape of floats, a tuple its type and shape; a constant
# where the type is in capitals) and attributes.
CONTRIB = [
    ("Attention", [[1, 3, 8], ("FLOAT", [8, 24]), ("FLOAT", [24])], {"num_heads": 2}),
    ("MultiHeadAttention", [[1, 3, 8], [1, 3, 8], [1, 3, 8]], {"num_heads": 2}),
    ("GroupQueryAttention", [[1, 1, 8], [1, 1, 4], [1, 1, 4], [1, 1, 4, 4], [1, 1, 4, 4], ("int32", [1]), ("INT32", [])],
     {"num_heads": 2, "kv_num_heads": 1}),
    ("RotaryEmbedding", [[1, 2, 8], ("INT64", [1, 2]), ("FLOAT", [4, 2]), ("FLOAT", [4, 2])], {"num_heads": 2}),
    ("LayerNormalization", [[2, 4], ("FLOAT", [4]), ("FLOAT", [4])], {"axis": -1}),
    ("SimplifiedLayerNormalization", [[2, 4], ("FLOAT", [4])], {"epsilon": 1e-5}),
    ("SkipLayerNormalization", [[1, 2, 4], [1, 2, 4], ("FLOAT", [4]), "", ("FLOAT", [4])], {"epsilon": 1e-5}),
    ("SkipSimplifiedLayerNormalization", [[1, 2, 4], [1, 2, 4], ("FLOAT", [4])], {}),
    ("EmbedLayerNormalization", [("int32", [1, 3]), "", ("FLOAT", [9, 4]), ("FLOAT", [3, 4]), "", ("FLOAT", [4]),
                                 ("FLOAT", [4])], {}),
    ("FusedMatMul", [[2, 3], [4, 3]], {"transB": 1, "alpha": 0.5}),
    ("FusedConv", [[1, 1, 4, 4], ("FLOAT", [2, 1, 3, 3])], {"activation": "Relu", "kernel_shape": [3, 3]}),
    ("FusedGemm", [[2, 3], [3, 4], ("FLOAT", [4])], {"activation": "Relu"}),
    ("BiasGelu", [[2, 4], ("FLOAT", [4])], {}),
    ("FastGelu", [[2, 4]], {}),
    ("QuickGelu", [[2, 4]], {"alpha": 1.702}),
    ("BiasSoftmax", [[1, 2, 3, 3], [1, 1, 1, 3]], {"axis": 3, "is_inner_broadcast": 0}),
    ("MatMulNBits", [[1, 16], ("UINT8", [2, 1, 8]), ("FLOAT", [2])], {"K": 16, "N": 2, "bits": 4, "block_size": 16}),
    ("DynamicQuantizeMatMul", [[2, 4], ("INT8", [4, 3]), ("FLOAT", [3])], {}),
    ("MatMulIntegerToFloat", [("uint8", [2, 4]), ("INT8", [4, 3]), ("FLOAT", []), ("FLOAT", [])], {}),
    ("GatherBlockQuantized", [("UINT8", [4, 16]), ("int64", [2]), ("FLOAT", [4, 2])], {"block_size": 16}),
]


def contrib_models():
    for op, operands, attributes in CONTRIB:
        names, inputs, constants = [], [], []
        for i, operand in enumerate(operands):
            names.append(f"i{i}" if operand else "")
            if not operand:
                continue
            kind, shape = operand if isinstance(operand, tuple) else ("float", operand)
            number = getattr(TensorProto, kind.upper())
            if kind.isupper():
                array = numpy.ones(shape, helper.tensor_dtype_to_np_dtype(number))
                constants.append(numpy_helper.from_array(array, names[-1]))
            else:
                inputs.append(value(names[-1], shape, number))
        outputs = ["y", "k", "v"] if op == "GroupQueryAttention" else ["y"]
        node = helper.make_node(op, names, outputs, domain="com.microsoft", **attributes)
        graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")], constants)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        yield op, helper.make_model(graph, opset_imports=imports, ir_version=8)


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(graph, **more):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more)


def odd_models():
    """Forms that the node tests do not have: every way to store a tensor, functions, branches, symbolic shapes."""
    tensors = {
        "raw": numpy_helper.from_array(numpy.arange(4, dtype=numpy.float32), "w"),
        "float_data": helper.make_tensor("w", TensorProto.FLOAT, [4], [1, 2, 3, 4]),
        "int32_data_half": helper.make_tensor("w", TensorProto.FLOAT16, [4], [1, 2, 3, 4]),
        "int64_data": helper.make_tensor("w", TensorProto.INT64, [4], [1, 2, 3, 4]),
        "double_data": helper.make_tensor("w", TensorProto.DOUBLE, [4], [1, 2, 3, 4]),
        "uint64_data": helper.make_tensor("w", TensorProto.UINT64, [4], [1, 2, 3, 4]),
        "int4": helper.make_tensor("w", TensorProto.INT4, [4], [1, 2, 3, -4]),
        "bool": numpy_helper.from_array(numpy.array([True, False, True, True]), "w"),
        "string": helper.make_tensor("w", TensorProto.STRING, [4], [b"a", b"b", b"c", b"d"]),
    }
    external = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "w.bin"), ("offset", "16"), ("length", "16")):
        external.external_data.add(key=key, value=text)
    tensors["external"] = external
    for name, tensor in tensors.items():
        kind = tensor.data_type
        node = helper.make_node("Identity", ["w"], ["y"])
        yield name, model(helper.make_graph([node], "g", [value("x", [4])], [value("y", [4], kind)], [tensor]))

    sparse = helper.make_sparse_tensor(tensors["raw"], numpy_helper.from_array(numpy.array([0, 2, 5, 7]), "i"), [8])
    add = helper.make_node("Add", ["x", "w"], ["y"])
    yield "sparse", model(
        helper.make_graph([add], "g", [value("x", [8])], [value("y", [8])], sparse_initializer=[sparse]))

    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(kind, ["x"], [name])], name, [], [value(name, [4])])
        for name, kind in (("then", "Neg"), ("else", "Exp"))
    }
    condition = numpy_helper.from_array(numpy.array(True), "c")
    yield "if", model(
        helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "g", [value("x", [4])],
                          [value("y", [4])], [condition]))

    imports = [helper.make_opsetid("", 17)]
    inner = helper.make_function("local", "inner", ["i"], ["o"], [
        helper.make_node("Relu", ["i"], ["t"]), helper.make_node("Neg", ["t"], ["o"])], imports)
    outer = helper.make_function("local", "outer", ["i"], ["o"], [
        helper.make_node("inner", ["i"], ["t"], domain="local"), helper.make_node("Exp", ["t"], ["o"])],
        imports + [helper.make_opsetid("local", 1)])
    calls = helper.make_graph([helper.make_node("outer", ["x"], ["y"], domain="local")], "g", [value("x", [4])],
                              [value("y", [4])])
    yield "functions", helper.make_model(calls, functions=[inner, outer], ir_version=8,
                                         opset_imports=imports + [helper.make_opsetid("local", 1)])

    shape = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["b"]),
        helper.make_node("Concat", ["b", "minus"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    constants = [numpy_helper.from_array(numpy.array([0]), "zero"), numpy_helper.from_array(numpy.array([-1]), "minus")]
    graph = helper.make_graph(shape, "g", [value("x", ["batch", "seq", 4])], [value("y", ["batch", "rest"])], constants)
    graph.value_info.extend([value("s", [3], TensorProto.INT64), value("t", [2], TensorProto.INT64)])
    yield "symbolic", model(graph)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_files():
    def entry(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    yield "empty", safetensors({})
    yield "metadata", safetensors({"__metadata__": {"format": "pt", "\u00e9": "\\n\""}})
    yield "scalar", safetensors({"a": entry("F32", [], 0, 4)}, b"\0" * 4)
    yield "two", safetensors({"b": entry("I64", [1, 2], 4, 20), "a": entry("F16", [2], 0, 4)}, b"\0" * 20)
    yield "no_elements", safetensors({"a": entry("F32", [0, 3], 0, 0)})
    yield "padded", safetensors(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   ', b"ab")
    for i, dtype in enumerate(("BOOL", "F8_E4M3", "F8_E5M2", "I8", "U4", "I4", "BF16", "F64", "I16", "I32")):
        size = {"F64": 8, "I32": 4, "BF16": 2, "I16": 2}.get(dtype, 1)
        yield dtype.lower(), safetensors({"a": entry(dtype, [2 if dtype in ("U4", "I4") else 1], 0, size)}, b"\0" * size)
    yield "hole", safetensors({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)}, b"abc")
    yield "overlap", safetensors({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, b"abc")
    yield "twice", safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{}}', b"a")
    yield "nested", safetensors(b'{"a":{"dtype":["U8"],"shape":[[1]],"data_offsets":[1e2,-1]}}', b"a")


def npy_files():
    def npy(array, version=None):
        stream = io.BytesIO()
        numpy.lib.format.write_array(stream, array, version=version)
        return stream.getvalue()

    for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?", "u4", "c8", ">f4", "S3"):
        name = kind.replace("?", "bool").replace(">", "big_")
        yield name, npy(numpy.zeros((2, 3), kind))
    yield "bf16", npy(numpy.zeros(4, ml_dtypes.bfloat16))
    yield "scalar", npy(numpy.float32(1.5).reshape(()))
    yield "fortran", npy(numpy.asfortranarray(numpy.ones((2, 3), numpy.float32)))
    yield "no_elements", npy(numpy.zeros((0, 4), numpy.float32))
    yield "version2", npy(numpy.zeros(3, numpy.int64), (2, 0))
    yield "version3", npy(numpy.zeros(3, numpy.int64), (3, 0))
    for name, save in (("stored", numpy.savez), ("deflated", numpy.savez_compressed)):
        stream = io.BytesIO()
        save(stream, a=numpy.arange(6, dtype=numpy.float32), b=numpy.zeros((2, 50), numpy.int64))
        yield name, stream.getvalue()


def manifests(rtx_compile):
    models = ROOT / "tests/fixtures/models"
    with tempfile.TemporaryDirectory() as folder:
        graph = helper.make_graph([
            helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"])], "g",
            [value("x", ["batch", 4])], [value("y", ["batch", 4])],
            [numpy_helper.from_array(numpy.ones((4, 4), numpy.float32), "w")])
        small = pathlib.Path(folder) / "small.onnx"
        onnx.save(model(graph), small)
        paths = {"small": small, "vit": models / "vit.dyn20/model.onnx"}
        for name, path in paths.items():
            for arch, more in (("cpu", []), ("sm_90a", []), ("cpu_variant", ["--specialize", "batch=2"])):
                if more and name != "small":
                    continue
                package = pathlib.Path(folder) / f"{name}_{arch}"
                done = subprocess.run([rtx_compile, path, "--arch", arch.split("_variant")[0], *more, "-o", package],
                                      capture_output=True)
                if done.returncode:
                    raise SystemExit(f"{rtx_compile}: {done.stderr.decode()}")
                text = (package / "manifest.yaml").read_bytes()
                if len(text) < 40_000:
                    yield package.name, text


def ir_texts():
    for path in sorted((ROOT / "tests/golden").glob("*/*.rtxir")):
        text = path.read_text().split("# expect:")[0]
        if len(text) < 3000:
            yield path.parent.name + "_" + path.stem, text.encode()
    # One function for each operation: values that all operations are checked with.
    text = (ROOT / "tests/unit/op_values.rtxir").read_text()
    for i, function in enumerate(text.split("\nfunc ")[1:]):
        if len(function) < 1500:
            name = function.split("(")[0].strip("@")
            yield f"op_{name}", ("rtxir 1\nstage imported\nfunc " + function).encode()


def main():
    rtx_compile = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/ci/cli/rtx-compile"
    for old in CORPUS.glob("*/seed_*"):
        old.unlink()
    for kind, proto in operator_models().items():
        write("onnx", kind, proto)
    for name, proto in contrib_models():
        write("onnx", f"microsoft_{name}", proto.SerializeToString())
    for name, proto in odd_models():
        write("onnx", f"form_{name}", proto.SerializeToString())
    for name, contents in safetensors_files():
        write("safetensors", name, contents)
    for name, contents in npy_files():
        write("npy", name, contents)
    for name, contents in ir_texts():
        write("ir_text", name, contents)
        if not name.startswith(("text_", "ops_")):
            write("passes", name, contents)
    for name, contents in manifests(rtx_compile):
        write("manifest", name, contents)


if __name__ == "__main__":
    main()
