// State-space operators: CausalConvWithState and LinearAttention of ai.onnx 27 and of com.microsoft.
//
// A recurrence over the sequence is unrolled, so the sequence must have a constant length.

#include <cmath>

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

constexpr int64_t most_steps = 64;
constexpr int64_t most_slots = 8;  // of state_window

DType accumulator(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Result<Value*> zeros(Conversion& c, DType dtype, Shape shape) {
  RTX_ASSIGN(Value * zero, c.scalar(dtype, 0));
  return c.broadcast(zero, std::move(shape));
}

// One value of a list that gets a leading axis, as [1, ...].
Result<Value*> as_slot(Conversion& c, Value* x) {
  Shape shape = x->type.shape;
  shape.insert(shape.begin(), 1);
  return c.reshape(x, std::move(shape));
}

// The state that a call starts from: that of the last slot where there is a window.
Result<Value*> past_state(Conversion& c, size_t index, int64_t window) {
  RTX_ASSIGN(Value * past, c.input(index));
  if (window == 0) return past;
  if (past->type.rank() < 1 || !past->type.shape[0].is(window))
    return c.invalid("E327", concat("past_state needs a first axis of size ", window)).with_got(past->type.str());
  RTX_ASSIGN(past, c.slice(past, 0, window - 1, 1));
  Shape shape = past->type.shape;
  shape.erase(shape.begin());
  return c.reshape(past, std::move(shape));
}

Result<int64_t> state_window(Conversion& c) {
  int64_t window = c.integer("state_window", 0);
  if (window < 0 || window > most_slots) return c.invalid("E321", concat("state_window ", window));
  return window;
}

// ---- CausalConvWithState: input, weight, bias, past_state

// [batch, sequence, d1, ..., dn] as [batch, d1 * ... * dn, sequence]
Result<Value*> channels_first(Conversion& c, Value* x) {
  const Shape shape = x->type.shape;
  if (shape.size() < 3) return c.invalid("E327", "an input needs rank 3 or more").with_got(x->type.str());
  Dim channels = 1;
  for (size_t i = 2; i < shape.size(); ++i) channels = channels * shape[i];
  RTX_ASSIGN(x, c.reshape(x, {shape[0], shape[1], channels}));
  return c.transpose(x, {0, 2, 1});
}

// The inverse, with the trailing axes of `like`.
Result<Value*> channels_last(Conversion& c, Value* x, const Shape& like) {
  RTX_ASSIGN(x, c.transpose(x, {0, 2, 1}));
  Shape shape = {x->type.shape[0], x->type.shape[1]};
  shape.insert(shape.end(), like.begin() + 2, like.end());
  return c.reshape(x, std::move(shape));
}

// What only onnxruntime's CUDA provider has, by attribute; each at its default.
Result<void> refuse_extensions(Conversion& c) {
  const std::pair<const char*, int64_t> defaults[] = {{"state_update_capacity", 0}, {"state_channels_last", -1},
                                                      {"state_length", 0},          {"input_channel_offset", 0},
                                                      {"input_channels", 0},        {"ndim", 1}};
  for (const auto& [name, value] : defaults)
    if (int64_t given = c.integer(name, value); given != value) return c.unsupported(concat(name, " = ", given));
  return Ok{};
}

Result<void> causal_conv(Conversion& c) {
  RTX_TRY(refuse_extensions(c));
  RTX_ASSIGN(const int64_t window, state_window(c));
  const int64_t dilation = c.integer("dilation", 1);
  const std::string activation = c.string("activation", "none");
  if (dilation < 1 || dilation >= int64_t{1} << 31) return c.invalid("E321", concat("dilation ", dilation));
  if (activation != "none" && activation != "silu" && activation != "swish")
    return c.invalid("E321", concat("activation '", escape_text(activation), "'"));
  RTX_ASSIGN(Value * x, c.input(0));
  RTX_ASSIGN(Value * weight, c.input(1));
  const bool is_last = c.integer("channels_last", 0) != 0;
  const Shape given = x->type.shape;
  if (is_last) {
    RTX_ASSIGN(x, channels_first(c, x));
  }
  RTX_TRY(c.need_rank(x, 3));
  RTX_TRY(c.need_rank(weight, 3));
  const Dim batch = x->type.shape[0], channels = x->type.shape[1], length = x->type.shape[2];
  const Dim& taps = weight->type.shape[2];
  if (!channels.is_constant() || !taps.is_constant() || taps.constant() < 1)
    return c.unsupported("channels or a kernel size that are not constant").with_got(weight->type.str());
  const Dim kept = (taps.constant() - 1) * dilation;

  // The positions before the input, then the input.
  Value* all = nullptr;
  if (c.has(3)) {
    RTX_ASSIGN(Value * past, past_state(c, 3, window));
    if (is_last) {
      RTX_ASSIGN(past, channels_first(c, past));
    }
    RTX_TRY(c.need_rank(past, 3));
    if (past->type.shape[2] != kept && !c.unify(past->type.shape[2], kept))
      return c.invalid("E327", concat("past_state needs ", kept.str(), " positions")).with_got(past->type.str());
    RTX_ASSIGN(all, c.emit(Op::concat, {past, x}, {{"axis", int64_t{2}}}));
  } else {
    RTX_ASSIGN(Value * zero, c.scalar(x->type.dtype, 0));
    RTX_ASSIGN(all, c.emit(Op::pad, {x, zero}, {{"low", Shape{0, 0, kept}}, {"high", Shape{0, 0, 0}}}));
  }

  std::vector<Value*> operands = {all, weight};
  if (c.has(2)) {
    RTX_ASSIGN(Value * bias, c.input(2));
    operands.push_back(bias);
  }
  const std::vector<int64_t> one = {1}, dilations = {dilation}, pads = {0, 0};
  RTX_ASSIGN(Value * y,
             c.emit(Op::conv, std::move(operands),
                    {{"strides", one}, {"dilations", dilations}, {"pads", pads}, {"groups", channels.constant()}}));
  if (activation != "none") {
    RTX_ASSIGN(y, c.emit(Op::silu, {y}));
  }
  if (is_last) {
    RTX_ASSIGN(y, channels_last(c, y, given));
  }
  c.set(0, y);
  if (!c.wants(1)) return Ok{};

  // The state after a position is the `kept` positions that end with it.
  auto state_from = [&](const Dim& start) -> Result<Value*> {
    RTX_ASSIGN(Value * state, c.slice(all, 2, start, kept));
    if (!is_last) return state;
    return channels_last(c, state, given);
  };
  if (window == 0) {
    RTX_ASSIGN(Value * state, state_from(length));
    c.set(1, state);
    return Ok{};
  }
  if (window > 1 && !length.is_constant())
    return c.unsupported(concat("state_window = ", window, " with a sequence of length ", length.str()))
        .with_help("it needs a constant length; fix the dim with --dim NAME=SIZE");
  std::vector<Value*> slots;
  for (int64_t slot = 0; slot < window; ++slot) {
    const Dim start = length - Dim(window - 1 - slot);
    RTX_ASSIGN(Value * state, state_from(start.is_constant() && start.constant() < 1 ? Dim(0) : start));
    if (start.is_constant() && start.constant() < 1) {
      RTX_ASSIGN(state, zeros(c, state->type.dtype, state->type.shape));
    }
    RTX_ASSIGN(state, as_slot(c, state));
    slots.push_back(state);
  }
  RTX_ASSIGN(Value * states, c.emit(Op::concat, std::move(slots), {{"axis", int64_t{0}}}));
  c.set(1, states);
  return Ok{};
}

// ---- LinearAttention: query, key, value, past_state, decay, beta

enum Input : size_t { query, key, value, past, decay, beta };

// [batch, sequence, heads * size] as [batch, sequence, heads, size]
Result<Value*> with_heads(Conversion& c, size_t index, int64_t heads, DType dtype) {
  RTX_ASSIGN(Value * x, c.input(index));
  RTX_TRY(c.need_rank(x, 3));
  auto size = x->type.shape[2].divided_by(heads);
  if (!size || !size->is_constant() || size->constant() < 1)
    return c.invalid("E321", concat(heads, " heads do not divide input ", index)).with_got(x->type.str());
  RTX_ASSIGN(x, c.cast(x, dtype));
  return c.reshape(x, {x->type.shape[0], x->type.shape[1], heads, *size});
}

struct Recurrence {
  int64_t steps = 0, query_heads = 0, heads = 0;                                      // heads of key, value and state
  Value *q = nullptr, *k = nullptr, *v = nullptr, *decay = nullptr, *beta = nullptr;  // [batch, sequence, heads, size]
};

// x[:, t] of [batch, sequence, heads, size], as [batch, heads, size, 1] or [batch, heads, 1, size].
Result<Value*> at_step(Conversion& c, Value* x, int64_t t, bool column) {
  RTX_ASSIGN(x, c.slice(x, 1, t, 1));
  const Shape shape = x->type.shape;
  return c.reshape(x, column ? Shape{shape[0], shape[2], shape[3], 1} : Shape{shape[0], shape[2], 1, shape[3]});
}

Result<Value*> next_state(Conversion& c, const Recurrence& r, Value* state, int64_t t) {
  RTX_ASSIGN(Value * k, at_step(c, r.k, t, true));
  RTX_ASSIGN(Value * added, at_step(c, r.v, t, false));
  if (r.decay) {
    RTX_ASSIGN(Value * g, at_step(c, r.decay, t, true));
    RTX_ASSIGN(g, c.emit(Op::exp, {g}));
    RTX_ASSIGN(state, c.emit(Op::mul, {state, g}));
  }
  if (r.beta) {
    RTX_ASSIGN(Value * known, c.emit(Op::mul, {state, k}));
    RTX_ASSIGN(known, c.reduce(Op::reduce_sum, known, {2}, true));
    RTX_ASSIGN(Value * rate, at_step(c, r.beta, t, true));
    RTX_ASSIGN(added, c.emit(Op::sub, {added, known}));
    RTX_ASSIGN(added, c.emit(Op::mul, {added, rate}));
  }
  RTX_ASSIGN(added, c.emit(Op::mul, {k, added}));
  return c.emit(Op::add, {state, added});
}

// q[:, t] on the state, as [batch, 1, query heads, size]: each state serves query_heads / heads of them.
Result<Value*> output_at(Conversion& c, const Recurrence& r, Value* state, int64_t t, double scale) {
  RTX_ASSIGN(Value * q, c.slice(r.q, 1, t, 1));
  const Shape shape = q->type.shape;
  RTX_ASSIGN(q, c.reshape(q, {shape[0], r.heads, r.query_heads / r.heads, shape[3]}));
  RTX_ASSIGN(Value * y, c.emit(Op::matmul, {q, state}));
  RTX_ASSIGN(Value * factor, c.scalar(y->type.dtype, scale));
  RTX_ASSIGN(y, c.emit(Op::mul, {y, factor}));
  return c.reshape(y, {shape[0], 1, y->type.shape[3] * Dim(r.query_heads)});
}

Result<void> linear_attention(Conversion& c) {
  const std::string rule = c.string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", is_delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !is_delta && rule != "linear")
    return c.invalid("E321", concat("update_rule '", escape_text(rule), "'"));
  RTX_ASSIGN(const int64_t window, state_window(c));
  Recurrence r;
  r.query_heads = c.integer("q_num_heads", 0);
  r.heads = c.integer("kv_num_heads", 0);
  if (r.query_heads < 1 || r.heads < 1)
    return c.invalid("E324", "attribute 'q_num_heads' or 'kv_num_heads' is missing");
  const bool inverse = c.node().domain == "com.microsoft" && r.heads > r.query_heads;
  if (inverse ? r.heads % r.query_heads != 0 : r.query_heads % r.heads != 0)
    return c.invalid("E321", concat(r.heads, " key heads do not fit ", r.query_heads, " query heads"));
  for (size_t i : {decay, beta})
    if ((i == decay ? gated : is_delta) && !c.has(i))
      return c.invalid("E221", concat("update_rule '", rule, "' needs input ", i));
  const DType dtype = c.type(query).dtype, wide = accumulator(dtype);
  RTX_ASSIGN(r.q, with_heads(c, query, r.query_heads, wide));
  RTX_ASSIGN(r.k, with_heads(c, key, r.heads, wide));
  RTX_ASSIGN(r.v, with_heads(c, value, r.heads, wide));
  if (gated) {
    RTX_ASSIGN(r.decay, with_heads(c, decay, r.heads, wide));
  }
  if (is_delta) {
    RTX_TRY(c.need_rank(beta, 3));
    RTX_ASSIGN(r.beta, with_heads(c, beta, c.type(beta).shape[2].is(1) ? 1 : r.heads, wide));
  }
  const Dim batch = r.k->type.shape[0], length = r.k->type.shape[1], size = r.k->type.shape[3];
  if (!length.is_constant() || length.constant() < 1 || length.constant() > most_steps)
    return c.unsupported(concat("a sequence of length ", length.str()))
        .with_expected(concat("a static length from 1 to ", most_steps))
        .with_help("fix the dim with --dim NAME=SIZE");
  r.steps = length.constant();
  double scale = c.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(r.q->type.shape[3].constant()));
  if (inverse) {
    // One output for each state: the query heads are repeated.
    const Shape shape = r.q->type.shape;
    const int64_t repeats = r.heads / r.query_heads;
    RTX_ASSIGN(r.q, c.reshape(r.q, {shape[0], shape[1], shape[2], 1, shape[3]}));
    RTX_ASSIGN(r.q, c.broadcast(r.q, {shape[0], shape[1], shape[2], repeats, shape[3]}));
    RTX_ASSIGN(r.q, c.reshape(r.q, {shape[0], shape[1], r.heads, shape[3]}));
    r.query_heads = r.heads;
  }

  DType state_dtype = dtype;
  Value* state = nullptr;
  if (c.has(past)) {
    state_dtype = c.type(past).dtype;
    RTX_ASSIGN(state, past_state(c, past, window));
    RTX_TRY(c.need_rank(state, 4));
    RTX_ASSIGN(state, c.cast(state, wide));
  } else {
    RTX_ASSIGN(state, zeros(c, wide, {batch, r.heads, size, r.v->type.shape[3]}));
  }
  std::vector<Value*> outputs, states;
  for (int64_t t = 0; t < r.steps; ++t) {
    RTX_ASSIGN(state, next_state(c, r, state, t));
    RTX_ASSIGN(Value * y, output_at(c, r, state, t, scale));
    outputs.push_back(y);
    states.push_back(state);
  }
  Value* y = outputs[0];
  if (outputs.size() > 1) {
    RTX_ASSIGN(y, c.emit(Op::concat, std::move(outputs), {{"axis", int64_t{1}}}));
  }
  RTX_ASSIGN(y, c.cast(y, dtype));
  c.set(0, y);
  if (!c.wants(1)) return Ok{};
  if (window > 0) {
    std::vector<Value*> slots;
    for (int64_t slot = 0; slot < window; ++slot) {
      const int64_t t = r.steps - window + slot;
      Value* held = nullptr;
      if (t >= 0) {
        held = states[static_cast<size_t>(t)];
      } else {
        RTX_ASSIGN(held, zeros(c, wide, state->type.shape));
      }
      RTX_ASSIGN(held, as_slot(c, held));
      slots.push_back(held);
    }
    state = slots[0];
    if (slots.size() > 1) {
      RTX_ASSIGN(state, c.emit(Op::concat, std::move(slots), {{"axis", int64_t{0}}}));
    }
  }
  RTX_ASSIGN(state, c.cast(state, state_dtype));
  c.set(1, state);
  return Ok{};
}

constexpr std::string_view microsoft = "com.microsoft";

}  // namespace

constinit const Converter linear_attention_converters[] = {
    {"CausalConvWithState", 27, causal_conv, never, "activation", 2, 4, "", 2},
    {"LinearAttention", 27, linear_attention, never, "chunk_size kv_num_heads q_num_heads scale update_rule", 3, 6, "",
     2},
    {"CausalConvWithState", 1, causal_conv, never,
     "activation channels_last dilation input_channel_offset input_channels ndim state_channels_last state_length "
     "state_update_capacity state_window",
     2, 4, microsoft, 3},
    {"LinearAttention", 1, linear_attention, never,
     "chunk_size kv_num_heads q_num_heads scale state_window update_rule", 3, 6, microsoft, 2},
};
std::span<const Converter> linear_attention_table() { return linear_attention_converters; }

}  // namespace rtx::onnx
