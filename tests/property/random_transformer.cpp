#include "tests/property/random_transformer.h"

#include <cmath>

#include "base/text.h"

namespace rtx::testing {

namespace {

class Generator {
 public:
  explicit Generator(Random& random) : random_(random), module_(std::make_unique<Module>()) {
    module_->symbols = {{"b", {1, 3, 0}}, {"s", {1, 5, 0}}, {"p", {1, 4, 0}}};
    function_ = module_->add_function("main");
    builder_.emplace(function_->block);
    dtype_ = pick({DType::f32, DType::f32, DType::f32, DType::f16, DType::bf16});
    heads_ = pick({2, 4});
    kv_heads_ = flip() ? heads_ : heads_ / 2;
    size_ = pick({2, 4, 8});
    hidden_ = heads_ * size_;
    has_cache_ = random_.chance(3);
    has_past_ = has_cache_ || random_.chance(6);
  }

  std::unique_ptr<Module> run() {
    Value* x = input();
    mask_ = random_.chance(3) ? nullptr : padding_mask();
    if (random_.chance(3)) {
      rope_tables();
    }
    for (int64_t layer = random_.between(1, 2); layer > 0; --layer) x = this->layer(x);
    if (flip()) x = norm(x);
    if (random_.chance(3)) x = around(x);
    if (flip()) x = linear(x, hidden_, pick({3, 12}), flip());
    output(x);
    function_->block.insert(nullptr, Op::yield, outputs_, {}, {});
    return std::move(module_);
  }

 private:
  template <typename T>
  T pick(std::initializer_list<T> items) {
    return items.begin()[random_.between(0, static_cast<int64_t>(items.size()) - 1)];
  }
  bool flip() { return random_.chance(2); }
  bool near_miss() { return random_.chance(8); }
  static Dim b() { return Dim::symbol("b"); }
  static Dim s() { return Dim::symbol("s"); }
  Dim keys() const { return has_past_ ? Dim::symbol("p") + s() : s(); }

  // What the generator asks for fits by construction.
  Value* make(Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
    Result<Value*> value = builder_->value(op, std::move(operands), std::move(attributes));
    if (!value) {
      std::fprintf(stderr, "%s\n", to_string(value.error().first()).c_str());
      std::abort();
    }
    return *value;
  }
  Value* argument(const std::string& name, DType dtype, Shape shape) {
    return function_->block.add_argument({dtype, std::move(shape)}, name);
  }
  void output(Value* value) {
    outputs_.push_back(value);
    function_->output_names.push_back(concat("out", outputs_.size()));
  }
  Value* number(double value, DType dtype) { return make(Op::constant, {}, {{"value", Tensor::scalar(dtype, value)}}); }
  Value* number(double value, const Value* beside) { return number(value, beside->type.dtype); }
  Value* weight(Shape shape, DType dtype) {
    return make(Op::weight, {}, {{"name", concat("w", weights_++)}, {"dtype", dtype}, {"shape", std::move(shape)}});
  }
  // The operands of a commutative operation in either order.
  Value* either(Op op, Value* x, Value* y) { return flip() ? make(op, {x, y}) : make(op, {y, x}); }
  Value* reshape(Value* x, Shape shape) { return make(Op::reshape, {x}, {{"shape", std::move(shape)}}); }
  Value* transpose(Value* x, std::vector<int64_t> perm) {
    return make(Op::transpose, {x}, {{"perm", std::move(perm)}});
  }
  Value* slice(Value* x, size_t axis, const Dim& start, const Dim& size) {
    Shape starts(x->type.shape.size(), Dim(0)), sizes = x->type.shape;
    starts[axis] = start;
    sizes[axis] = size;
    return make(Op::slice, {x},
                {{"starts", std::move(starts)},
                 {"sizes", std::move(sizes)},
                 {"steps", std::vector<int64_t>(x->type.shape.size(), 1)}});
  }
  Value* cast(Value* x, DType to) { return x->type.dtype == to ? x : make(Op::cast, {x}, {{"to", to}}); }
  Value* reduce(Op op, Value* x, int64_t axis) {
    return make(op, {x}, {{"axes", std::vector<int64_t>{axis}}, {"keepdims", true}});
  }

  // [b, s, hidden]
  Value* input() {
    if (flip()) {
      Value* x = argument("x", dtype_, {b(), s(), hidden_});
      if (has_past_) return x;
      return x;
    }
    Value* ids = argument("ids", DType::i64, {b(), s()});
    table_ = weight({7, hidden_}, dtype_);
    Value* x = make(Op::gather, {table_, ids}, {{"axis", int64_t{0}}});
    if (flip()) {
      Value* positions = make(Op::iota, {}, {{"shape", Shape{s()}}, {"axis", int64_t{0}}, {"dtype", DType::i64}});
      Value* table = weight({6, hidden_}, dtype_);
      x = either(Op::add, x, make(Op::gather, {table, positions}, {{"axis", int64_t{0}}}));
    }
    return x;
  }

  Value* layer(Value* x) {
    const bool first_norm = flip(), rms = flip();
    Value* y = first_norm ? norm(x, rms) : x;
    y = attention(y);
    if (random_.chance(4)) y = around(y);
    x = either(Op::add, x, y);
    if (!first_norm && flip()) x = norm(x, rms);
    if (random_.chance(5)) output(x);
    y = first_norm ? norm(x, rms) : x;
    y = feed_forward(y);
    x = either(Op::add, y, x);
    return first_norm ? x : norm(x, rms);
  }

  Value* linear(Value* x, int64_t from, int64_t to, bool bias) {
    Value* y = flip() ? make(Op::matmul, {x, weight({from, to}, dtype_)})
                      : make(Op::matmul, {x, weight({to, from}, dtype_)}, {{"transpose_rhs", true}});
    return bias ? either(Op::add, y, weight({to}, dtype_)) : y;
  }

  Value* norm(Value* x) { return norm(x, flip()); }
  Value* norm(Value* x, bool rms) {
    const int64_t last = x->type.rank() - 1, size = x->type.shape.back().constant();
    if (random_.chance(4)) {
      if (rms) return make(Op::rms_norm, {x, weight({size}, x->type.dtype)}, {{"axis", last}, {"epsilon", 1e-6}});
      return make(Op::layer_norm, {x, weight({size}, x->type.dtype), weight({size}, x->type.dtype)}, {{"axis", last}});
    }
    const bool wide = x->type.dtype != DType::f32 && flip();
    const DType dtype = x->type.dtype;
    Value* in = wide ? cast(x, DType::f32) : x;
    const bool odd = near_miss();
    if (!rms) in = make(Op::sub, {in, reduce(Op::reduce_mean, in, odd && flip() ? 1 : last)});
    Value* square = flip() ? make(Op::mul, {in, in}) : make(Op::pow, {in, number(2, in)});
    Value* mean = reduce(Op::reduce_mean, square, last);
    Value* y = nullptr;
    if (odd && flip()) {  // the epsilon outside of the root
      y = make(Op::div, {in, either(Op::add, make(Op::sqrt, {mean}), number(1e-3, in))});
    } else {
      Value* sum = either(Op::add, mean, number(odd ? 0.5 : 1e-3, in));
      switch (random_.between(0, 2)) {
        case 0:
          y = either(Op::mul, in, make(Op::rsqrt, {sum}));
          break;
        case 1:
          y = make(Op::div, {in, make(Op::sqrt, {sum})});
          break;
        default:
          y = either(Op::mul, in, make(Op::reciprocal, {make(Op::sqrt, {sum})}));
      }
    }
    if (flip()) y = cast(y, dtype);
    Value* scale = weight({size}, y->type.dtype);
    if (rms && random_.chance(3)) scale = either(Op::add, scale, number(1, scale));
    y = either(Op::mul, y, scale);
    if (!rms) y = either(Op::add, y, weight({size}, y->type.dtype));
    return cast(y, dtype);
  }

  Value* activation(Value* x) {
    const bool odd = near_miss();
    Value* y = nullptr;
    switch (random_.between(0, 6)) {
      case 0:
        return make(Op::relu, {x});
      case 1: {  // x / 2 * (1 + erf(x / sqrt(2)))
        Value* inside = flip() ? make(Op::div, {x, number(odd ? 1.5 : M_SQRT2, x)})
                               : either(Op::mul, x, number(odd ? 0.5 : M_SQRT1_2, x));
        Value* sum = either(Op::add, make(Op::erf, {inside}), number(1, x));
        if (flip()) return either(Op::mul, either(Op::mul, x, number(0.5, x)), sum);
        y = either(Op::mul, x, sum);
        return flip() ? either(Op::mul, y, number(0.5, x)) : make(Op::div, {y, number(2, x)});
      }
      case 2: {  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
        Value* cube = flip() ? make(Op::pow, {x, number(3, x)}) : make(Op::mul, {make(Op::mul, {x, x}), x});
        Value* inside = either(Op::add, x, either(Op::mul, cube, number(odd ? 0.05 : 0.044715, x)));
        y = make(Op::tanh, {either(Op::mul, inside, number(std::sqrt(2 / M_PI), x))});
        return either(Op::mul, either(Op::mul, x, number(0.5, x)), either(Op::add, y, number(1, x)));
      }
      case 3:  // x * sigmoid(1.702 x)
        return either(Op::mul, x, make(Op::sigmoid, {either(Op::mul, x, number(1.702, x))}));
      case 4:
        return make(Op::gelu, {x}, {{"approximate", std::string(flip() ? "none" : "tanh")}});
      default:  // x * sigmoid(x), or of something else
        return either(Op::mul, x, make(Op::sigmoid, {odd ? make(Op::neg, {x}) : x}));
    }
  }

  Value* feed_forward(Value* x) {
    const int64_t inner = pick({4, 12});
    const bool bias = flip();
    if (flip()) return linear(activation(linear(x, hidden_, inner, bias)), inner, hidden_, bias);
    Value *gate = nullptr, *up = nullptr;
    if (random_.chance(3)) {  // one product, cut in two
      Value* both = linear(x, hidden_, 2 * inner, bias);
      gate = slice(both, 2, 0, inner);
      up = slice(both, 2, inner, inner);
    } else {
      gate = linear(x, hidden_, inner, bias);
      up = linear(x, hidden_, inner, bias);
    }
    if (near_miss()) output(gate);
    return linear(either(Op::mul, activation(gate), up), inner, hidden_, bias);
  }

  // Moves and sums that do not belong to any pattern.
  Value* around(Value* x) {
    const int last = x->type.rank() - 1;
    const int64_t width = x->type.shape.back().constant();
    switch (random_.between(0, 4)) {
      case 0: {
        Value* left = slice(x, static_cast<size_t>(last), 0, width / 2);
        Value* right = slice(x, static_cast<size_t>(last), width / 2, width - width / 2);
        return make(Op::concat, {right, left}, {{"axis", int64_t{last}}});
      }
      case 1:
        return transpose(make(Op::tanh, {transpose(x, {1, 0, 2})}), {1, 0, 2});
      case 2:
        output(slice(x, 1, 0, 1));
        return x;
      case 3:
        return reshape(make(Op::abs, {reshape(x, {b() * s(), width})}), {b(), s(), width});
      default:
        return make(Op::sub, {x, make(Op::mul, {reduce(Op::reduce_mean, x, 1), number(0.5, x)})});
    }
  }

  // --- attention ---

  Value* positions(size_t rank, size_t axis, const Dim& length, const Dim& first) {
    Shape shape(rank, Dim(1));
    shape[axis] = length;
    Value* iota = make(Op::iota, {}, {{"shape", shape}, {"axis", static_cast<int64_t>(axis)}, {"dtype", DType::i64}});
    if (first.is(0)) return iota;
    Value* start = reshape(make(Op::dim_values, {}, {{"values", Shape{first}}}), {});
    return either(Op::add, iota, start);
  }

  // [b, 1, 1, keys], bool or what is added to scores.
  Value* padding_mask() {
    switch (random_.between(0, 3)) {
      case 0:
        return argument("padding", DType::boolean, {b(), 1, 1, keys()});
      case 1: {
        Value* given = argument("padding", DType::i64, {b(), keys()});
        return reshape(cast(given, DType::boolean), {b(), 1, 1, keys()});
      }
      case 2: {  // (1 - mask) * lowest
        Value* given = argument("padding", dtype_, {b(), keys()});
        Value* inverse = make(Op::sub, {number(1, given), reshape(given, {b(), 1, 1, keys()})});
        return either(Op::mul, inverse, number(dtype_ == DType::f32 ? -3.4028234663852886e38 : -1e4, given));
      }
      default:
        return argument("bias", dtype_, {b(), pick({int64_t{1}, heads_}), s(), keys()});
    }
  }

  // [1, 1, s, keys], bool: causal, or a sliding window, or neither.
  Value* causal_mask() {
    int64_t kind = random_.between(0, 3);
    if (kind == 0) return nullptr;
    // Where a finite number is added, no row may be left with nothing but keys that have it.
    if (kind == 3 && mask_ && mask_->type.dtype != DType::boolean) kind = 2;
    const bool odd = near_miss();
    sees_nothing_ = false;
    Value* i = positions(4, 2, s(), has_past_ && !odd ? Dim::symbol("p") : Dim(0));
    Value* j = positions(4, 3, keys(), 0);
    sees_nothing_ = random_.chance(8);
    Value* seen = make(sees_nothing_ ? Op::less : Op::less_equal, {j, i});
    if (kind == 3) {
      sees_nothing_ = sees_nothing_ || mask_;
      Value* first = make(Op::sub, {i, number(pick({2, 3}), DType::i64)});
      seen = either(Op::logical_and, seen, make(Op::less, {first, j}));
    }
    return seen;
  }

  Value* masked(Value* scores) {
    Value* keep = causal_mask();
    // What a row without keys gives depends on how large numbers round, but for infinity.
    const double fill = keep && sees_nothing_              ? -HUGE_VAL
                        : scores->type.dtype == DType::f32 ? pick({-1e9, -3.4028234663852886e38, -HUGE_VAL})
                                                           : pick({-1e4, -HUGE_VAL});
    if (mask_ && mask_->type.dtype == DType::boolean) {
      keep = keep ? either(Op::logical_and, keep, mask_) : mask_;
    } else if (mask_) {
      scores = either(Op::add, scores, cast(mask_, scores->type.dtype));
    }
    if (!keep) return scores;
    switch (random_.between(0, 2)) {
      case 0:
        return make(Op::select, {keep, scores, number(fill, scores)});
      case 1:
        return make(Op::select, {make(Op::logical_not, {keep}), number(fill, scores), scores});
      default:
        return either(Op::add, scores, make(Op::select, {keep, number(0, scores), number(fill, scores)}));
    }
  }

  void rope_tables() {
    const int64_t pairs = flip() ? size_ / 2 : std::max<int64_t>(1, size_ / 4);
    Value* i = cast(positions(2, 0, s(), has_past_ ? Dim::symbol("p") : Dim(0)), DType::f32);
    Tensor frequencies(DType::f32, {1, pairs});
    for (int64_t k = 0; k < pairs; ++k) frequencies.set_f64(k, std::pow(10.0, -2.0 * static_cast<double>(k) / 4));
    Value* angles = make(Op::matmul, {i, make(Op::constant, {}, {{"value", frequencies}})});
    if (flip()) angles = make(Op::concat, {angles, angles}, {{"axis", int64_t{1}}});
    cosine_ = cast(make(Op::cos, {angles}), dtype_);
    sine_ = cast(make(Op::sin, {angles}), dtype_);
    pairs_ = pairs;
  }

  // Of [b, heads, s, size]: rope as an operation, or as x cos + rotated sin.
  Value* rope(Value* x) {
    const int64_t width = cosine_->type.shape.back().constant();
    if (width == pairs_) {
      return make(Op::rope, {x, cosine_, sine_}, {{"interleaved", random_.chance(3)}});
    }
    Value* turned = width == size_ ? x : slice(x, 3, 0, width);
    Value* left = slice(turned, 3, 0, pairs_);
    Value* right = slice(turned, 3, pairs_, pairs_);
    Value* rotated = near_miss() ? make(Op::concat, {right, left}, {{"axis", int64_t{3}}})
                                 : make(Op::concat, {make(Op::neg, {right}), left}, {{"axis", int64_t{3}}});
    Value* y = either(Op::add, either(Op::mul, turned, cosine_), either(Op::mul, rotated, sine_));
    if (width == size_) return y;
    return make(Op::concat, {y, slice(x, 3, width, size_ - width)}, {{"axis", int64_t{3}}});
  }

  // [b, s, count * size] to [b, count, s, size]
  Value* split_heads(Value* x, int64_t count) { return transpose(reshape(x, {b(), s(), count, size_}), {0, 2, 1, 3}); }

  Value* with_past(Value* x, const char* name) {
    if (!has_past_) return x;
    const std::string full = concat(name, function_->block.argument_count());
    Value* past = argument(full, dtype_, {b(), kv_heads_, Dim::symbol("p"), size_});
    Value* all = make(Op::concat, {past, x}, {{"axis", int64_t{2}}});
    if (has_cache_) output(all);
    return all;
  }

  // Each kv head for the heads of its group.
  Value* repeated(Value* x) {
    const int64_t group = heads_ / kv_heads_;
    if (group == 1) return x;
    Value* y = reshape(x, {b(), kv_heads_, 1, keys(), size_});
    y = make(Op::broadcast, {y}, {{"shape", Shape{b(), kv_heads_, group, keys(), size_}}});
    return reshape(y, {b(), heads_, keys(), size_});
  }

  Value* attention(Value* x) {
    const bool bias = flip();
    Value *q = nullptr, *k = nullptr, *v = nullptr;
    const int64_t kv = kv_heads_ * size_;
    if (random_.chance(3)) {
      Value* all = linear(x, hidden_, hidden_ + 2 * kv, bias);
      q = slice(all, 2, 0, hidden_);
      k = slice(all, 2, hidden_, kv);
      v = slice(all, 2, hidden_ + kv, kv);
    } else {
      q = linear(x, hidden_, hidden_, bias);
      k = linear(x, hidden_, kv, bias && flip());
      v = linear(x, hidden_, kv, bias);
    }
    q = split_heads(q, heads_);
    k = split_heads(k, kv_heads_);
    v = split_heads(v, kv_heads_);
    if (random_.chance(6)) {
      q = norm(q, true);
      k = norm(k, true);
    }
    if (cosine_) {
      q = rope(q);
      if (!near_miss()) k = rope(k);
    }
    k = with_past(k, "past_k");
    v = with_past(v, "past_v");
    Value* y = nullptr;
    if (random_.chance(8)) {
      y = make(Op::attention, {q, k, v}, {{"scale", 0.5}, {"causal", flip()}});
    } else {
      y = attention_in_pieces(q, repeated(k), repeated(v));
    }
    y = reshape(transpose(y, {0, 2, 1, 3}), {b(), s(), hidden_});
    return linear(y, hidden_, hidden_, bias);
  }

  Value* attention_in_pieces(Value* q, Value* k, Value* v) {
    const double scale = 1 / std::sqrt(static_cast<double>(size_));
    const int64_t place = random_.between(0, 4);
    if (place == 0) q = either(Op::mul, q, number(scale, q));
    if (place == 1) {
      q = either(Op::mul, q, number(std::sqrt(scale), q));
      k = either(Op::mul, k, number(std::sqrt(scale), k));
    }
    Value* scores = flip() ? make(Op::matmul, {q, transpose(k, {0, 1, 3, 2})})
                           : make(Op::matmul, {q, k}, {{"transpose_rhs", true}});
    if (place == 2) scores = either(Op::mul, scores, number(scale, scores));
    if (place == 3) scores = make(Op::div, {scores, number(1 / scale, scores)});
    if (random_.chance(6)) {
      scores = make(Op::tanh, {make(Op::div, {scores, number(5, scores)})});
      scores = either(Op::mul, scores, number(5, scores));
    }
    const bool odd = near_miss();
    if (odd && flip()) output(scores);
    const DType dtype = scores->type.dtype;
    if (dtype != DType::f32 && flip()) scores = cast(scores, DType::f32);
    scores = masked(scores);
    Value* weights = softmax(scores);
    if (odd && flip()) weights = either(Op::mul, weights, weights);
    return make(Op::matmul, {cast(weights, dtype), v});
  }

  Value* softmax(Value* x) {
    if (!random_.chance(4)) return make(Op::softmax, {x}, {{"axis", int64_t{3}}});
    Value* top = reduce(Op::reduce_max, x, 3);
    Value* e = make(Op::exp, {make(Op::sub, {x, top})});
    return make(Op::div, {e, reduce(Op::reduce_sum, e, 3)});
  }

  Random& random_;
  std::unique_ptr<Module> module_;
  Function* function_;
  std::optional<Builder> builder_;
  std::vector<Value*> outputs_;
  DType dtype_;
  int64_t heads_, kv_heads_, size_, hidden_, pairs_ = 0;
  bool has_cache_ = false, has_past_ = false;
  bool sees_nothing_ = false;  // a row of the last causal mask may have no keys
  int weights_ = 0;
  Value *table_ = nullptr, *mask_ = nullptr, *cosine_ = nullptr, *sine_ = nullptr;
};

}  // namespace

void make_valid_input(std::string_view name, Tensor& input) {
  if (name != "padding") return;
  const int64_t keys = input.shape.back();
  for (int64_t i = 0; i < input.element_count(); ++i) {
    const bool seen = i % keys == 0 || input.f64(i) > 0;
    is_float(input.dtype) ? input.set_f64(i, seen) : input.set_i64(i, seen);
  }
}

std::unique_ptr<Module> random_transformer(Random& random) { return Generator(random).run(); }

}  // namespace rtx::testing
