#!/usr/bin/env python3
"""Writes op_values.rtxir: for each op some functions that yield a result and what numpy says it is.

Run it in the environment with the oracle packages after changing an op: .venv/bin/python tests/unit/make_op_values.py
"""
import math
import pathlib

import ml_dtypes
import numpy as np

functions = []
names = set()
dtypes = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64", "int32": "i32", "int16": "i16",
          "int8": "i8", "uint8": "u8", "bool": "bool", "int4": "i4", "uint4": "u4", "float8_e4m3fn": "f8e4m3",
          "float8_e5m2": "f8e5m2"}
nan_bits = {"f64": "7ff8000000000000", "f32": "7fc00000", "f16": "7e00", "f8e4m3": "7f", "f8e5m2": "7e"}


def element(value, dtype):
    if dtype in nan_bits:
        if math.isnan(value):
            return "nan:0x" + nan_bits[dtype]
        return repr(float(value)) if dtype == "f64" else f"{np.float32(value)!s}"
    return str(int(value))


def dense(array):
    dtype = dtypes[str(array.dtype)]
    values = ", ".join(element(v, dtype) for v in array.reshape(-1))
    return f"dense<{list(array.shape)}, {dtype}, [{values}]>"


def type_of(array):
    return f"tensor<{list(array.shape)}, {dtypes[str(array.dtype)]}>"


def case(name, op, operands, expected, attributes="", also=None):
    """`also`: what the second result of the op is, for a case of its own."""
    if also is not None:
        for part, number in ((name, 0), (name + "_second", 1)):
            add_case(part, op, operands, [expected, also], number, attributes)
    else:
        add_case(name, op, operands, [expected], 0, attributes)


def add_case(name, op, operands, results, number, attributes):
    assert name not in names, name
    names.add(name)
    results = [np.asarray(result) for result in results]
    expected = results[number]
    lines = []
    for i, operand in enumerate(operands + [expected]):
        operand = np.asarray(operand)
        lines.append(f"  %{i} = constant() {{value = {dense(operand)}}} : {type_of(operand)}")
    arguments = ", ".join(f"%{i}" for i in range(len(operands)))
    attributes = f" {{{attributes}}}" if attributes else ""
    made = ["r", "s"][:len(results)]
    types = ", ".join(type_of(result) for result in results)
    lines.append(f"  {', '.join('%' + m for m in made)} = {op}({arguments}){attributes} : {types}")
    lines.append(f"  yield(%{made[number]}, %{len(operands)})")
    functions.append(f"func @{name}() {{\n" + "\n".join(lines) + '\n} outputs "got", "expected"\n')


f32, f64, f16, i64, i32, i8, u8 = np.float32, np.float64, np.float16, np.int64, np.int32, np.int8, np.uint8
inf, nan = np.inf, np.nan
special = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, 3.5, 0.5, -0.5, 100, inf, -inf, nan], f32)
ints = np.array([0, 1, -1, 7, -8, 127, -128], i8)
rng = np.random.default_rng(7)


def randn(*shape, dtype=f32):
    return rng.normal(size=shape).round(3).astype(dtype)


with np.errstate(all="ignore"):
    wide = special.astype(f64)
    vectorized = np.vectorize
    unary = {"neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
             "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "tanh": np.tanh,
             "erf": vectorized(math.erf), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "floor": np.floor,
             "ceil": np.ceil, "round": np.round, "relu": lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0)),
             "sign": lambda x: np.where((x == 0) | np.isnan(x), x, np.sign(x))}
    for op, function in unary.items():
        case(f"{op}_f32", op, [special], function(wide).astype(f32))
    finite = special[:10]
    case("sin_f32", "sin", [finite], np.sin(finite.astype(f64)).astype(f32))
    case("cos_f32", "cos", [finite], np.cos(finite.astype(f64)).astype(f32))
    for op in ("tan", "sinh", "cosh"):
        case(f"{op}_f32", op, [finite], getattr(np, op)(finite.astype(f64)).astype(f32))
    for op in ("asin", "acos", "atan", "asinh", "acosh", "atanh"):
        case(f"{op}_f32", op, [special], getattr(np, "arc" + op[1:])(wide).astype(f32))
    case("exp_f16_overflows", "exp", [np.array([11, 12, -20], f16)], np.exp(np.array([11, 12, -20], f64)).astype(f16))
    case("neg_i8_wraps", "neg", [ints], -ints)
    case("abs_i8_wraps", "abs", [ints], np.abs(ints))
    case("sign_i8", "sign", [ints], np.sign(ints))
    case("relu_i8", "relu", [ints], np.maximum(ints, 0))
    case("bitwise_not_i8", "bitwise_not", [ints], ~ints)
    case("bitwise_not_u8", "bitwise_not", [np.array([0, 1, 255], u8)], np.array([255, 254, 0], u8))
    case("logical_not", "logical_not", [np.array([True, False])], np.array([False, True]))
    case("is_nan", "is_nan", [special], np.isnan(special))
    case("is_inf", "is_inf", [special], np.isinf(special))

    # Casts. Out of range and nan: saturation and 0, which numpy leaves undefined.
    big = np.array([2.9, -2.9, 300, -300, inf, -inf, nan], f32)
    case("cast_f32_i8", "cast", [big], np.array([2, -2, 127, -128, 127, -128, 0], i8), "to = i8")
    case("cast_f32_u8", "cast", [big], np.array([2, 0, 255, 0, 255, 0, 0], u8), "to = u8")
    case("cast_f32_i64", "cast", [np.array([3e18, 1e19, -1e19], f32)],
         np.array([int(f32(3e18)), 2**63 - 1, -2**63], i64), "to = i64")
    case("cast_i64_i8", "cast", [np.array([300, -129, 5], i64)], np.array([300, -129, 5], i64).astype(i8), "to = i8")
    case("cast_f32_bool", "cast", [np.array([0.0, -0.0, 0.1, nan], f32)], np.array([0, 0, 1, 1], bool), "to = bool")
    case("cast_i64_bool", "cast", [np.array([0, 256, -1], i64)], np.array([0, 1, 1], bool), "to = bool")
    case("cast_bool_f32", "cast", [np.array([1, 0], bool)], np.array([1, 0], f32), "to = f32")
    case("cast_f32_f16", "cast", [np.array([1.0009765, 65519, 65520, 1e-8, -inf], f32)],
         np.array([1.0009765, 65519, 65520, 1e-8, -inf], f32).astype(f16), "to = f16")
    odd = np.array([2**53 + 1, 2**60 + 2**36 + 1, -(2**60 + 2**36 + 1), 2**62 + 2**38], i64)
    case("cast_i64_f32_rounds_once", "cast", [odd], odd.astype(f32), "to = f32")
    case("cast_i64_f64", "cast", [odd], odd.astype(f64), "to = f64")

    # Two operands, broadcast.
    a, b = special[:, None], special[None, :]
    for op, function in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}.items():
        case(f"{op}_f32", op, [a, b], function(a, b))
    case("pow_f32", "pow", [a, b], np.power(a.astype(f64), b.astype(f64)).astype(f32))
    case("minimum_f32", "minimum", [a[2:], b[:, 2:]], np.minimum(a[2:], b[:, 2:]))
    case("maximum_f32", "maximum", [a[2:], b[:, 2:]], np.maximum(a[2:], b[:, 2:]))
    zeros = np.array([0.0, -0.0], f32)
    case("minimum_of_zeros", "minimum", [zeros[:, None], zeros], np.array([[0.0, -0.0], [-0.0, -0.0]], f32))
    case("maximum_of_zeros", "maximum", [zeros[:, None], zeros], np.array([[0.0, 0.0], [0.0, -0.0]], f32))
    for op, function in {"equal": np.equal, "less": np.less, "less_equal": np.less_equal}.items():
        case(f"{op}_f32", op, [a, b], function(a, b))
        case(f"{op}_i8", op, [ints[:, None], ints], function(ints[:, None], ints))
    for op, function in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "minimum": np.minimum,
                         "maximum": np.maximum}.items():
        case(f"{op}_i8_wraps", op, [ints[:, None], ints], function(ints[:, None], ints))
    nonzero = np.array([1, -1, 3, -3, 7], i64)
    numerators = np.array([0, 7, -7, 8, -9, -2**63], i64)[:, None]
    truncated = np.array([[int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for y in nonzero.tolist()]
                          for x in numerators[:5, 0].tolist()], i64)
    case("div_i64_truncates", "div", [numerators[:5], nonzero], truncated)
    case("div_i64_by_zero_and_overflow", "div", [np.array([5, -5, -2**63], i64), np.array([0, 0, -1], i64)],
         np.array([0, 0, -2**63], i64))
    case("mod_i64", "mod", [numerators, nonzero], np.mod(numerators, nonzero))
    case("mod_i64_truncated", "mod", [numerators, nonzero], np.fmod(numerators, nonzero), "truncated = true")
    case("mod_i64_by_zero", "mod", [np.array([5, -5], i64), np.array([0, 0], i64)], np.array([0, 0], i64))
    halves = np.array([5.5, -5.5, 4, -4, 0], f32)[:, None]
    divisors = np.array([2, -2, 0.75, inf], f32)
    case("mod_f32", "mod", [halves, divisors[:3]], np.mod(halves, divisors[:3]))
    case("mod_f32_truncated", "mod", [halves, divisors], np.fmod(halves, divisors), "truncated = true")
    case("pow_i64_wraps", "pow", [np.array([3, -2, 10, 0], i64), np.array([40, 63, 20, 0], i64)],
         np.power(np.array([3, -2, 10, 0], i64), np.array([40, 63, 20, 0], i64)))
    case("pow_i64_negative", "pow", [np.array([1, -1, -1, 5, 0], i64), np.array([-3, -3, -2, -1, -1], i64)],
         np.array([1, -1, 1, 0, 0], i64))
    case("pow_f32_i64", "pow", [np.array([1.5, -2], f32), np.array([2, 3], i64)], np.array([2.25, -8], f32))
    truth = np.array([True, False])
    for op, function in {"logical_and": np.logical_and, "logical_or": np.logical_or,
                         "logical_xor": np.logical_xor}.items():
        case(op, op, [truth[:, None], truth], function(truth[:, None], truth))
    wide_ints = np.array([0, 1, -1, 2**40 + 5, -2**63], i64)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        case(f"{op}_i8", op, [ints[:, None], ints], getattr(np, op)(ints[:, None], ints))
        case(f"{op}_i64", op, [wide_ints[:, None], wide_ints], getattr(np, op)(wide_ints[:, None], wide_ints))
    amounts = np.array([0, 1, 7, 8, 31, 64, 255], u8)
    case("shift_left_u8", "shift_left", [np.array([[1], [255]], u8), amounts],
         np.array([[1, 2, 128, 0, 0, 0, 0], [255, 254, 128, 0, 0, 0, 0]], u8))
    case("shift_right_u8", "shift_right", [np.array([[1], [255]], u8), amounts],
         np.array([[1, 0, 0, 0, 0, 0, 0], [255, 127, 1, 0, 0, 0, 0]], u8))
    case("shift_left_i32", "shift_left", [i32([1, -3, 5, 5]), i32([31, 1, 32, -1])], i32([-2**31, -6, 0, 0]))
    case("shift_right_i32", "shift_right", [i32([-2**31, -3, 5, -5, 5]), i32([31, 1, 32, -1, 2])],
         i32([-1, -2, 0, -1, 1]))
    condition = np.array([[True], [False], [True]])
    case("select_broadcasts", "select", [condition, np.arange(4, dtype=f32), f32(9)],
         np.where(condition, np.arange(4, dtype=f32), f32(9)))
    case("add_empty_against_one", "add", [np.zeros((0, 3), f32), np.ones((1, 3), f32)], np.zeros((0, 3), f32))
    case("add_rank_0", "add", [f32(2), f32(3)], f32(5))

x = np.arange(24, dtype=i32).reshape(2, 3, 4)
case("reshape", "reshape", [x], x.reshape(4, 6), "shape = [4, 6]")
case("reshape_to_rank_0", "reshape", [np.array([[5]], i64)], i64(5), "shape = []")
case("transpose", "transpose", [x], x.transpose(2, 0, 1), "perm = [2, 0, 1]")
case("transpose_bool", "transpose", [x % 2 == 0], (x % 2 == 0).transpose(1, 0, 2), "perm = [1, 0, 2]")
case("broadcast", "broadcast", [x[:, :1]], np.broadcast_to(x[:, :1], (5, 2, 3, 4)), "shape = [5, 2, 3, 4]")
case("broadcast_rank_0", "broadcast", [i32(3)], np.full((2, 2), 3, i32), "shape = [2, 2]")
case("slice", "slice", [x], x[1:, 0:2, 1:4:2], "starts = [1, 0, 1], sizes = [1, 2, 2], steps = [1, 1, 2]")
case("slice_backwards", "slice", [x], x[:, ::-1, 3:0:-2], "starts = [0, 2, 3], sizes = [2, 3, 2], steps = [1, -1, -2]")
case("slice_to_nothing", "slice", [x], x[:, 3:, :], "starts = [0, 3, 0], sizes = [2, 0, 4], steps = [1, 1, 1]")
case("concat", "concat", [x, x[:, :1], x[:, :0]], np.concatenate([x, x[:, :1]], 1), "axis = 1")
case("concat_last", "concat", [x, -x], np.concatenate([x, -x], 2), "axis = 2")
case("pad", "pad", [x[0], i32(9)], np.pad(x[0], ((1, 0), (0, 2)), constant_values=9), "low = [1, 0], high = [0, 2]")
case("pad_crops", "pad", [x[0], i32(9)], np.pad(x[0][1:], ((0, 0), (2, 0)), constant_values=9)[:, :5],
     "low = [-1, 2], high = [0, -1]")
case("iota", "iota", [], np.broadcast_to(np.arange(3, dtype=i64)[:, None], (2, 3, 2)),
     "shape = [2, 3, 2], axis = 1, dtype = i64")
case("iota_f32", "iota", [], np.arange(4, dtype=f32), "shape = [4], axis = 0, dtype = f32")
case("dim_values", "dim_values", [], np.array([3, 12], i64), "values = [3, 3*4]")

indices = np.array([[0, -1], [2, 1]], i64)
case("gather", "gather", [x, indices], np.take(x, indices, 1), "axis = 1")
case("gather_scalar", "gather", [x, i64(-2)], np.take(x, -2, 2), "axis = 2")
case("gather_clamps", "gather", [x, np.array([5, -9], i32)], x[:, [2, 0]], "axis = 1")
case("gather_from_nothing", "gather", [np.zeros((0, 2), f32), np.array([0, 3], i64)], np.zeros((2, 2), f32), "axis = 0")
case("gather_nd", "gather_nd", [x, np.array([[0, 1], [1, -1]], i64)], x[[0, 1], [1, -1]])
case("gather_nd_whole", "gather_nd", [x, np.array([[[0, 1, 2]]], i64)], x[0:1, 1:2, 2].reshape(1, 1))
case("gather_nd_batch", "gather_nd", [x, np.array([[1], [0]], i64)], np.stack([x[0, 1], x[1, 0]]), "batch_dims = 1")
elements = np.array([[[2, 0, -1, 1]], [[0, 0, 1, 2]]], i64)
case("gather_elements", "gather_elements", [x, elements], np.take_along_axis(x, elements, 1), "axis = 1")

y = randn(2, 3, 4)
with np.errstate(all="ignore"):
    for op, function in {"reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min,
                         "reduce_prod": np.prod}.items():
        wide = y.astype(f64)
        case(f"{op}_f32", op, [y], function(wide, axis=(0, 2)).astype(f32), "axes = [0, 2]")
        case(f"{op}_keepdims", op, [y], function(wide, axis=1, keepdims=True).astype(f32), "axes = [1], keepdims = true")
        case(f"{op}_all", op, [y], f32(function(wide)), "axes = [0, 1, 2]")
        case(f"{op}_none", op, [y], y, "axes = []")
    hidden = np.array([[1, nan, 2], [inf, -inf, 0]], f32)
    case("reduce_max_nan", "reduce_max", [hidden], np.max(hidden, 1), "axes = [1]")
    case("reduce_min_nan", "reduce_min", [hidden], np.min(hidden, 1), "axes = [1]")
    case("reduce_sum_nan", "reduce_sum", [hidden], np.sum(hidden, 1), "axes = [1]")
nothing = np.zeros((2, 0), f32)
for op, value in {"reduce_sum": 0, "reduce_mean": nan, "reduce_max": -inf, "reduce_min": inf, "reduce_prod": 1}.items():
    case(f"{op}_of_nothing", op, [nothing], np.full(2, value, f32), "axes = [1]")
for op, value in {"reduce_sum": 0, "reduce_mean": 0, "reduce_max": -128, "reduce_min": 127, "reduce_prod": 1}.items():
    case(f"{op}_of_no_integers", op, [np.zeros((2, 0), i8)], np.full(2, value, i8), "axes = [1]")
case("reduce_mean_i64_truncates", "reduce_mean", [np.array([-3, 0, 1, -5], i64)], i64(-1), "axes = [0]")
case("reduce_sum_i8_wraps", "reduce_sum", [np.array([100, 100], i8)], i8(-56), "axes = [0]")
ties = np.array([[1, 3, 3], [nan, 5, nan], [-inf, -inf, -inf]], f32)
case("argmax_first", "argmax", [ties], np.array([1, 0, 0], i64), "axis = 1")
case("argmax_last", "argmax", [ties], np.array([2, 2, 2], i64), "axis = 1, select_last = true")
case("argmax_keepdims", "argmax", [y], np.argmax(y, 0)[None], "axis = 0, keepdims = true")
case("argmax_i64", "argmax", [x.astype(i64)], np.argmax(x, 2), "axis = 2")
case("argmax_of_nothing", "argmax", [nothing], np.zeros(2, i64), "axis = 1")
# Updates in index order; one outside is dropped.
line, hits, sent = np.array([1, 2, 3, 4], f32), np.array([1, -1, 1, 4, -5], i64), np.array([10, 20, 30, 40, 50], f32)
for reduction, wanted in {"none": [1, 30, 3, 20], "add": [1, 42, 3, 24], "mul": [1, 600, 3, 80],
                          "min": [1, 2, 3, 4], "max": [1, 30, 3, 20]}.items():
    case(f"scatter_elements_{reduction}", "scatter_elements", [line, hits, sent], np.array(wanted, f32),
         f'axis = 0, reduction = "{reduction}"')
    case(f"scatter_nd_{reduction}", "scatter_nd", [line, hits[:, None], sent], np.array(wanted, f32),
         f'reduction = "{reduction}"')
put = np.array([[[2, 0]], [[1, 1]]], i64)
along = np.zeros((2, 3, 4), i32)
for b, r in np.ndindex(2, 2):
    along[b, put[b, 0, r], r] = 7 + 2 * b + r  # the last one wins
case("scatter_elements_smaller", "scatter_elements", [np.zeros((2, 3, 4), i32), put, i32([[[7, 8]], [[9, 10]]])], along,
     "axis = 1")
case("scatter_nd_slices", "scatter_nd", [x, i64([[1, 0], [0, 2], [1, 0]]), i32([[1] * 4, [2] * 4, [3] * 4])],
     np.concatenate([np.concatenate([x[:1, :2], i32([[[2] * 4]])], 1), np.concatenate([i32([[[3] * 4]]), x[1:, 1:]], 1)]))
case("scatter_nd_min_of_nan", "scatter_nd", [f32([nan, 1, 2]), i64([[0], [1]]), f32([0, nan])], f32([nan, nan, 2]),
     'reduction = "min"')
case("scatter_elements_add_i8_wraps", "scatter_elements", [np.array([100], i8), i64([0, 0]), np.array([100, 100], i8)],
     np.array([44], i8), 'reduction = "add"')
case("scatter_elements_into_nothing", "scatter_elements", [np.zeros((0, 2), f32), np.zeros((1, 2), i64),
                                                           np.ones((1, 2), f32)], np.zeros((0, 2), f32))
case("scatter_nd_no_updates", "scatter_nd", [line, np.zeros((0, 1), i64), np.zeros(0, f32)], line)

order = f32([[3, nan, 1, 3, -inf], [0.0, -0.0, 2, 2, 2]])
case("topk_largest", "topk", [order], f32([[nan, 3, 3], [2, 2, 2]]), "axis = 1, k = 3",
     also=i64([[1, 0, 3], [2, 3, 4]]))
case("topk_smallest", "topk", [order], f32([[-inf, 1, 3], [0.0, -0.0, 2]]), "axis = 1, k = 3, largest = false",
     also=i64([[4, 2, 0], [0, 1, 2]]))
case("topk_all_smallest", "topk", [order[0]], f32([-inf, 1, 3, 3, nan]), "axis = 0, k = 5, largest = false",
     also=i64([4, 2, 0, 3, 1]))
case("topk_first_axis", "topk", [x], x[::-1], "axis = 0, k = 2", also=np.broadcast_to(i64([1, 0])[:, None, None], (2, 3, 4)))
case("topk_none", "topk", [line], np.zeros(0, f32), "axis = 0, k = 0", also=np.zeros(0, i64))

case("cumsum", "cumsum", [x], np.cumsum(x, 1, dtype=i32), "axis = 1")
case("cumsum_exclusive", "cumsum", [x], np.cumsum(x, 2, dtype=i32) - x, "axis = 2, exclusive = true")
case("cumsum_reverse", "cumsum", [x], np.cumsum(x[:, ::-1], 1, dtype=i32)[:, ::-1], "axis = 1, reverse = true")
case("cumsum_reverse_exclusive", "cumsum", [x], np.cumsum(x[:, ::-1], 1, dtype=i32)[:, ::-1] - x,
     "axis = 1, exclusive = true, reverse = true")
case("cumsum_f32", "cumsum", [y], np.cumsum(y.astype(f64), 0).astype(f32), "axis = 0")

lhs, rhs = randn(2, 1, 3, 4), randn(5, 4, 2)
product = (lhs.astype(f64) @ rhs.astype(f64)).astype(f32)
case("matmul", "matmul", [lhs, rhs], product)
case("matmul_transpose_lhs", "matmul", [lhs.swapaxes(-1, -2).copy(), rhs], product, "transpose_lhs = true")
case("matmul_transpose_rhs", "matmul", [lhs, rhs.swapaxes(-1, -2).copy()], product, "transpose_rhs = true")
case("matmul_transpose_both", "matmul", [lhs.swapaxes(-1, -2).copy(), rhs.swapaxes(-1, -2).copy()], product,
     "transpose_lhs = true, transpose_rhs = true")
case("matmul_of_nothing", "matmul", [np.zeros((2, 0), f32), np.zeros((0, 3), f32)], np.zeros((2, 3), f32))
case("matmul_i32", "matmul", [x[0], x[1].T.copy()], x[0] @ x[1].T)
case("matmul_f16_accumulates_wide", "matmul", [np.array([[60000, 60000, -60000]], f16), np.ones((3, 1), f16)],
     np.array([[60000]], f16))


def conv(data, weights, bias, strides, dilations, pads, groups):
    """Directly from the definition."""
    spatial = len(strides)
    data = np.pad(data.astype(f64), [(0, 0), (0, 0)] + [(pads[i], pads[spatial + i]) for i in range(spatial)])
    outputs, channels = weights.shape[:2]
    window = weights.shape[2:]
    size = [(data.shape[2 + i] - dilations[i] * (window[i] - 1) - 1) // strides[i] + 1 for i in range(spatial)]
    result = np.zeros((data.shape[0], outputs, *size))
    for n, m, *at in np.ndindex(result.shape):
        first = m // (outputs // groups) * channels
        total = 0.0 if bias is None else float(bias[m])
        for c, *k in np.ndindex(channels, *window):
            position = tuple(at[i] * strides[i] + k[i] * dilations[i] for i in range(spatial))
            total += data[(n, first + c, *position)] * float(weights[(m, c, *k)])
        result[(n, m, *at)] = total
    return result.astype(f32)


def conv_case(name, shape, weight_shape, strides, dilations, pads, groups=1, bias=False):
    data, weights = randn(*shape), randn(*weight_shape)
    operands = [data, weights] + ([randn(weight_shape[0])] if bias else [])
    expected = conv(data, weights, operands[2] if bias else None, strides, dilations, pads, groups)
    case(name, "conv", operands, expected,
         f"strides = {strides}, dilations = {dilations}, pads = {pads}, groups = {groups}")


conv_case("conv_1d", (2, 3, 7), (4, 3, 3), [1], [1], [0, 0])
conv_case("conv_1d_pads_strides", (1, 3, 8), (4, 3, 3), [2], [1], [1, 1], bias=True)
conv_case("conv_2d_patches", (1, 3, 4, 4), (5, 3, 2, 2), [2, 2], [1, 1], [0, 0, 0, 0], bias=True)
conv_case("conv_2d_dilated_ragged", (1, 2, 6, 5), (2, 2, 2, 3), [1, 2], [2, 1], [1, 0, 0, 2])
conv_case("conv_2d_groups", (1, 4, 3, 3), (6, 2, 2, 2), [1, 1], [1, 1], [0, 0, 0, 0], groups=2, bias=True)
conv_case("conv_depthwise", (1, 3, 5), (3, 1, 3), [1], [1], [2, 0], groups=3)

with np.errstate(all="ignore"):
    rows = np.array([[1, 2, 3], [-inf, 0, -inf], [-inf, -inf, -inf], [inf, 0, 1], [nan, 0, 1], [1e30, 0, -1e30]], f32)
    shifted = rows.astype(f64) - np.max(rows.astype(f64), 1, keepdims=True)
    soft = np.exp(shifted) / np.sum(np.exp(shifted), 1, keepdims=True)
    case("softmax", "softmax", [rows], soft.astype(f32), "axis = 1")
    case("softmax_first_axis", "softmax", [rows[:1].T.copy()], soft[:1].T.astype(f32), "axis = 0")
    case("softmax_of_nothing", "softmax", [nothing], nothing, "axis = 1")
    logs = shifted - np.log(np.sum(np.exp(shifted), 1, keepdims=True))
    case("log_softmax", "log_softmax", [rows], logs.astype(f32), "axis = 1")

z, scale, bias = randn(2, 3, 4).astype(f64), randn(4).astype(f64), randn(4).astype(f64)
mean, variance = z.mean(2, keepdims=True), z.var(2, keepdims=True)
normal = (z - mean) / np.sqrt(variance + 1e-5)
case("layer_norm", "layer_norm", [z.astype(f32), scale.astype(f32), bias.astype(f32)], (normal * scale + bias).astype(f32),
     "axis = 2")
case("layer_norm_no_bias", "layer_norm", [z.astype(f32), scale.astype(f32)], (normal * scale).astype(f32), "axis = 2")
flat = z.reshape(2, 12)
two = ((flat - flat.mean(1, keepdims=True)) / np.sqrt(flat.var(1, keepdims=True) + 0.5)).reshape(2, 3, 4)
case("layer_norm_two_axes", "layer_norm", [z.astype(f32), np.ones((3, 1), f32)], two.astype(f32), "axis = 1, epsilon = 0.5")
case("layer_norm_f16_keeps_squares", "layer_norm", [np.array([[300, -300]], f16), np.ones(2, f16)],
     np.array([[1, -1]], f16), "axis = 1")
rms = z / np.sqrt((z * z).mean(2, keepdims=True) + 1e-6) * scale
case("rms_norm", "rms_norm", [z.astype(f32), scale.astype(f32)], rms.astype(f32), "axis = 2, epsilon = 1e-06")
smooth = np.array([-10, -3, -1, -0.1, 0, 0.5, 1, 2, 10], f32)
wide = smooth.astype(f64)
case("gelu", "gelu", [smooth], (wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2).astype(f32))
case("gelu_tanh", "gelu", [smooth],
     (wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))) / 2).astype(f32), 'approximate = "tanh"')
case("silu", "silu", [smooth], (wide / (1 + np.exp(-wide))).astype(f32))

i4, u4, f8e4m3, f8e5m2 = ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
limits = {i4: (-8, 7), u4: (0, 15), i8: (-128, 127), u8: (0, 255), np.int16: (-32768, 32767)}


def spread(parameter, shape, axis=0, block=0):
    """A scale or zero point for every element."""
    parameter = np.asarray(parameter)
    if parameter.ndim == 0:
        return np.broadcast_to(parameter, shape)
    if block:
        return np.repeat(parameter, block, axis)[tuple(slice(0, n) for n in shape)]
    if parameter.ndim == 1:
        parameter = parameter.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(parameter, shape)


def quantize_case(name, x, scale, to, zero=None, axis=0, block=0):
    low, high = limits[to]
    ratio = np.divide(x, spread(scale, x.shape, axis, block), dtype=x.dtype)
    rounded = np.rint(ratio.astype(f64)) + (0 if zero is None else spread(zero, x.shape, axis, block).astype(f64))
    expected = np.where(np.isnan(rounded), 0, np.clip(rounded, low, high)).astype(i32).astype(to)
    case(name, "quantize", [x, scale] + ([] if zero is None else [zero]), expected,
         f"to = {dtypes[str(np.dtype(to))]}, axis = {axis}, block = {block}")


def dequantize_case(name, x, scale, to, zero=None, axis=0, block=0):
    shift = 0 if zero is None else spread(zero, x.shape, axis, block)
    if zero is None or np.asarray(zero).dtype.kind == "f":
        value = x.astype(f32) - np.asarray(shift, f32)
    else:
        value = (x.astype(i64) - np.asarray(shift).astype(i64)).astype(f32)
    expected = (value * spread(scale, x.shape, axis, block).astype(f32)).astype(to)
    case(name, "dequantize", [x, scale] + ([] if zero is None else [zero]), expected,
         f"to = {dtypes[str(np.dtype(to))]}, axis = {axis}, block = {block}")


with np.errstate(all="ignore"):
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -128.5, 254.5, 255.5, 1e9, -1e9, inf, -inf, nan], f32)
    for to in (i4, u4, i8, u8, np.int16):
        quantize_case(f"quantize_{dtypes[str(np.dtype(to))]}", ties * f32(0.25), f32(0.25), to, np.array(3).astype(to))
    quantize_case("quantize_without_zero_point", ties, f32(1), i8)
    quantize_case("quantize_negative_zero_point", ties, f32(1), i8, i8(-128))
    table = randn(3, 5) * f32(10)
    quantize_case("quantize_axis", table, np.array([0.5, 1, 2, 4, 8], f32), u8, np.array([0, 7, 128, 200, 255], u8), axis=1)
    quantize_case("quantize_blocks", table, np.array([[0.5, 1, 2], [4, 8, 1], [2, 3, 5]], f32), i8,
                  np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]], i8), axis=1, block=2)
    quantize_case("quantize_blocks_of_rows", table, np.full((2, 5), 0.3, f32), i8, axis=0, block=2)
    quantize_case("quantize_broadcast_scale", table, np.array([[0.5], [1], [2]], f32), i8)
    # f16: 4.9987793 / 2 is 2.4993896, and 0.1 is 0.0999756 in f16: the quotient is rounded to f16 before the integer.
    halves = np.array([4.999, 0.35, -0.35, 2049, 60000], f16)
    quantize_case("quantize_f16", halves, f16(0.1), u8, u8(10))
    quantize_case("quantize_f16_beyond_exact_integers", halves, f16(0.0039), np.int16, np.int16(101))
    eights = np.array([447, 449, 1000, 0.017, -3.3, 0], f32)
    case("quantize_f8e4m3", "quantize", [eights, f32(1)], np.clip(eights, -448, 448).astype(f8e4m3), "to = f8e4m3")
    case("quantize_f8e5m2_scaled", "quantize", [eights, f32(0.5)], (eights * 2).astype(f8e5m2), "to = f8e5m2")
    case("quantize_f8e4m3_unsaturated", "quantize", [np.array([1000, -1000, 2], f32), f32(1)],
         np.array([nan, nan, 2], f8e4m3), "to = f8e4m3, saturate = false")
    quantize_case("quantize_nothing", np.zeros((0, 3), f32), np.ones(3, f32), u8, axis=1)

    quarters = np.arange(-8, 8).astype(i4)
    dequantize_case("dequantize_i4", quarters, f32(0.3), f32, np.array(-8).astype(i4))
    dequantize_case("dequantize_u4_to_f16", np.arange(16).astype(u4), f16(0.3), f16, np.array(15).astype(u4))
    dequantize_case("dequantize_i8", ints, f32(0.1), f32, i8(-128))
    dequantize_case("dequantize_u8_axis", np.arange(240, 255).reshape(3, 5).astype(u8), np.array([0.5, 0.1, 3], f32), f32,
                    np.array([0, 128, 255], u8), axis=0)
    dequantize_case("dequantize_i16_blocks", np.arange(10).reshape(5, 2).astype(np.int16) * 3000,
                    np.array([[0.1, 1], [2, 3]], f32), f32, np.array([[-30000, 5], [1, 2]], np.int16), axis=0, block=3)
    extremes = np.array([2**31 - 1, -2**31, 16777217, 5], i32)
    dequantize_case("dequantize_i32", extremes, f32(1e-3), f32)
    dequantize_case("dequantize_i32_difference_beyond_i32", extremes, f32(1), f32, i32(-2**31))
    dequantize_case("dequantize_real_zero_point", np.arange(8).astype(u8), f32(0.7), f32, f32(3.25))
    dequantize_case("dequantize_f32_scale_to_f16", np.arange(250, 256).astype(u8), f32(0.123), f16)
    dequantize_case("dequantize_f8e4m3", np.array([448, -0.5, 0.001953125, 3.25], f8e4m3), f32(0.3), f32)
    case("dequantize_f8e4m3_nan", "dequantize", [np.array([nan, 2], f8e4m3), f32(2)], np.array([nan, 4], f32), "to = f32")
    case("unpack_bits_4", "unpack_bits", [np.array([[0x21, 0xf0], [0x8a, 0x07]], u8)],
         np.array([[1, 2, 0, 15], [10, 8, 7, 0]], u8), "bits = 4")
    case("unpack_bits_2", "unpack_bits", [np.array([0b11100100, 0b00011011], u8)],
         np.array([0, 1, 2, 3, 3, 2, 1, 0], u8), "bits = 2")
q, k, v = randn(1, 4, 3, 2), randn(1, 2, 5, 2), randn(1, 2, 5, 3)
keep, slope = np.array([[[[1, 1, 0, 1, 1]]]], bool), randn(4, 1, 5)


def attention(scale=1.0, softcap=0.0, hidden=None, fill=-inf, bias=0.0, guard=False):
    """numpy's attention over q, k, v with the kv heads repeated; `hidden` [3, 5] or more is where fill is added."""
    scores = q.astype(f64) @ np.repeat(k, 2, 1).astype(f64).swapaxes(2, 3) * scale
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if hidden is not None:
        scores = scores + np.where(hidden, fill, 0)
    scores = scores + bias
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(3, keepdims=True))
        weights = weights / weights.sum(3, keepdims=True)
    if guard:
        weights[np.broadcast_to((scores == -inf).all(3, keepdims=True), weights.shape)] = 0
    return (weights @ np.repeat(v, 2, 1).astype(f64)).astype(f32)


i, j = np.arange(3)[:, None], np.arange(5)[None, :]
case("attention", "attention", [q, k, v], attention(0.5), "scale = 0.5")
case("attention_softcap", "attention", [q, k, v], attention(2, 1.5), "scale = 2, softcap = 1.5")
case("attention_causal", "attention", [q, k, v], attention(hidden=j > i), "scale = 1, causal = true")
case("attention_causal_past", "attention", [q, k, v], attention(hidden=j > i + 2), "scale = 1, causal = true, offset = 2")
case("attention_window", "attention", [q, k, v], attention(hidden=(j > i + 2) | (j <= i)),
     "scale = 1, causal = true, offset = 2, window = 2")
case("attention_masks", "attention", [q, k, v, keep, slope], attention(hidden=~keep, bias=slope), "scale = 1")
case("attention_finite_fill", "attention", [q, k, v], attention(hidden=j > i - 1, fill=-3.0),
     "scale = 1, causal = true, offset = -1, fill = -3")
case("attention_row_without_keys", "attention", [q, k, v], attention(hidden=j > i - 1),
     "scale = 1, causal = true, offset = -1")
case("attention_guarded_row", "attention", [q, k, v], attention(hidden=j > i - 1, guard=True),
     "scale = 1, causal = true, offset = -1, guard = true")
x, angle = randn(2, 3, 6), randn(3, 2).astype(f64)
a, b = x[..., 0:2].astype(f64), x[..., 2:4].astype(f64)
turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle), x[..., 4:]], 2)
tables = [np.cos(angle), np.sin(angle)]
case("rope", "rope", [x.astype(f64)] + tables, turned)
a, b = x[..., 0:4:2].astype(f64), x[..., 1:4:2].astype(f64)
pairs = np.stack([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], 3).reshape(2, 3, 4)
case("rope_interleaved", "rope", [x.astype(f64)] + tables, np.concatenate([pairs, x[..., 4:]], 2), "interleaved = true")

path = pathlib.Path(__file__).with_name("op_values.rtxir")
path.write_text("# Results and what numpy says they are; written by make_op_values.py.\nrtxir 1\nstage imported\n" +
                "".join(functions))
print(f"{len(functions)} cases")
