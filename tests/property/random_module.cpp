#include "tests/property/random_module.h"

#include <algorithm>

#include "base/text.h"

namespace rtx::testing {

namespace {

const std::vector<DType> dtypes = {DType::f32, DType::f32, DType::f16, DType::f64, DType::bf16,
                                   DType::i64, DType::i32, DType::i8,  DType::u8,  DType::boolean};

class Generator {
 public:
  Generator(Random& random) : random_(random), module_(std::make_unique<Module>()) {
    module_->symbols = {{"b", {1, 4, 0}}, {"s", {1, 6, 0}}};
    function_ = module_->add_function("main");
    builder_.emplace(function_->block);
  }

  std::unique_ptr<Module> run(int operations) {
    // Both symbols alone on an axis, so that every input set binds them.
    argument({DType::f32, {Dim::symbol("b"), Dim::symbol("s"), 4}});
    argument({DType::f32, {Dim::symbol("s"), 4}});
    argument({DType::boolean, {Dim::symbol("b"), 1, Dim::symbol("s")}});
    argument({DType::i64, {Dim::symbol("b"), Dim::symbol("s")}});
    for (int64_t i = random_.between(0, 3); i > 0; --i) argument({pick(dtypes), shape()});
    for (int made = 0, tried = 0; made < operations && tried < 100 * operations; ++tried) made += step();
    finish();
    return std::move(module_);
  }

 private:
  template <typename T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(random_.between(0, static_cast<int64_t>(items.size()) - 1))];
  }
  bool flip() { return random_.chance(2); }

  Dim dim() {
    switch (random_.between(0, 5)) {
      case 0:
        return 1;
      case 1:
        return Dim::symbol("b");
      case 2:
        return Dim::symbol("s");
      case 3:
        return Dim::symbol("b") + Dim::symbol("s");
      default:
        return random_.between(1, 4);
    }
  }
  Shape shape() {
    Shape shape;
    for (int64_t rank = random_.between(0, 3); rank > 0; --rank) shape.push_back(dim());
    return shape;
  }

  void argument(Type type) {
    std::string name = concat("in", function_->block.argument_count());
    values_.push_back(function_->block.add_argument(std::move(type), std::move(name)));
  }

  // Recent values more often, so that chains grow.
  Value* operand() {
    int64_t last = static_cast<int64_t>(values_.size()) - 1;
    return values_[static_cast<size_t>(flip() ? random_.between(std::max<int64_t>(0, last - 4), last)
                                              : random_.between(0, last))];
  }
  // A value that fits beside `other`: the same, a constant, or one of its type.
  Value* partner(Value* other) {
    if (random_.chance(3)) return constant(other->type.dtype);
    std::vector<Value*> fitting;
    for (Value* value : values_) {
      if (value->type.dtype == other->type.dtype) fitting.push_back(value);
    }
    return random_.chance(8) ? other : pick(fitting);
  }
  // Numbers that rules look for, as a scalar or in an axis of length 1 or 4.
  Value* constant(DType dtype) {
    constexpr double numbers[] = {0, -0.0, 1, 2, -1, 0.5, 3, 8, 0.1};
    const std::vector<std::vector<int64_t>> shapes = {{}, {1}, {4}, {1, 1}};
    Tensor tensor(dtype, pick(shapes));
    bool uniform = !random_.chance(4);
    double number = numbers[random_.between(0, 8)];
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      if (!uniform) number = numbers[random_.between(0, 8)];
      is_float(dtype) ? tensor.set_f64(i, number)
                      : tensor.set_i64(i, dtype == DType::boolean ? number != 0 : static_cast<int64_t>(number));
    }
    return create(Op::constant, {}, {{"value", std::move(tensor)}});
  }

  Value* create(Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
    Result<Value*> value = builder_->value(op, std::move(operands), std::move(attributes));
    if (!value) return nullptr;
    values_.push_back(*value);
    return *value;
  }

  int64_t axis(const Value* value) { return random_.between(0, std::max(0, value->type.rank() - 1)); }

  // Whether an operation was made; a choice that does not fit its operands makes none.
  bool step() {
    Op op = pick(std::vector<Op>(all_ops().begin(), all_ops().end()));
    const OpSpec& record = spec(op);
    Value* x = operand();
    switch (record.family) {
      case OpFamily::structure:
        return structure(op);
      case OpFamily::elementwise:
        return elementwise(op, x);
      case OpFamily::movement:
        return movement(op, x) != nullptr;
      case OpFamily::indexing:
        return indexing(op, x) != nullptr;
      case OpFamily::scatter:
        return scatter(op, x) != nullptr;
      case OpFamily::ordering:
        return ordering(op, x);
      case OpFamily::reduction:
        return reduction(op, x) != nullptr;
      case OpFamily::contraction:
        return contraction(op, x) != nullptr;
      case OpFamily::composite:
        return composite(op, x) != nullptr;
    }
    return false;
  }

  bool structure(Op op) {
    if (op == Op::weight) {
      int64_t rows = random_.between(1, 4);  // in the name too: one name has one type
      std::string name = concat("w", rows, ".", random_.between(0, 9));
      return create(Op::weight, {}, {{"name", std::move(name)}, {"dtype", DType::f32}, {"shape", Shape{rows, 4}}});
    }
    if (op == Op::dim_values) return create(op, {}, {{"values", Shape{dim(), dim()}}});
    return op == Op::constant && constant(pick(dtypes));
  }

  bool elementwise(Op op, Value* x) {
    if (op == Op::cast) return create(op, {x}, {{"to", pick(dtypes)}});
    if (op == Op::select) {
      for (Value* value : values_) {
        if (value->type.dtype == DType::boolean && flip()) return create(op, {value, x, partner(x)});
      }
      return false;
    }
    std::vector<Value*> operands = {x};
    if (spec(op).operand_spec_count() == 2) operands.push_back(partner(x));
    if (operands.size() == 2 && flip()) std::swap(operands[0], operands[1]);
    return create(op, std::move(operands), op == Op::mod ? AttributeList{{"truncated", flip()}} : AttributeList{});
  }

  Value* movement(Op op, Value* x) {
    const Shape& from = x->type.shape;
    Shape to = from, zeros(from.size(), Dim(0));
    std::vector<int64_t> ones(from.size(), 1);
    size_t at = static_cast<size_t>(axis(x));
    if (op == Op::iota)
      return create(op, {},
                    {{"shape", Shape{dim(), dim()}},
                     {"axis", random_.between(0, 1)},
                     {"dtype", flip() ? DType::i64 : DType::f32}});
    if (op == Op::broadcast) {
      for (Dim& d : to) d = d.is(1) && flip() ? dim() : d;
      if (flip()) to.insert(to.begin(), dim());
      return create(op, {x}, {{"shape", to}});
    }
    if (op == Op::reshape) {  // merges, splits by inserting ones, or goes flat
      if (from.size() >= 2 && flip()) {
        to[0] = to[0] * to[1];
        to.erase(to.begin() + 1);
      } else {
        to.insert(to.begin() + static_cast<int64_t>(at), 1);
      }
      return to.size() > 5 ? nullptr : create(op, {x}, {{"shape", to}});
    }
    if (op == Op::unpack_bits) return create(op, {x}, {{"bits", flip() ? int64_t{2} : int64_t{4}}});
    if (from.empty()) return nullptr;
    if (op == Op::transpose) {
      std::vector<int64_t> perm;
      for (size_t i = 0; i < from.size(); ++i) perm.push_back(static_cast<int64_t>(i));
      for (size_t i = perm.size() - 1; i > 0; --i)
        std::swap(perm[i], perm[static_cast<size_t>(random_.between(0, static_cast<int64_t>(i)))]);
      return create(op, {x}, {{"perm", perm}});
    }
    if (op == Op::slice) {
      if (flip()) {  // backwards
        zeros[at] = from[at] - 1;
        ones[at] = -1;
      } else if (from[at].is_constant() && from[at].constant() > 1) {
        zeros[at] = 1;
        to[at] = from[at] - 1;
      }
      return create(op, {x}, {{"starts", zeros}, {"sizes", to}, {"steps", ones}});
    }
    if (op == Op::concat) return create(op, {x, partner(x), x}, {{"axis", static_cast<int64_t>(at)}});
    Value* value = create(Op::constant, {}, {{"value", Tensor(x->type.dtype, {})}});
    Shape high = zeros;
    if (flip()) zeros[at] = 1;
    if (flip()) high[at] = Dim::symbol("b");
    return create(op, {x, value}, {{"low", zeros}, {"high", high}});
  }

  Value* indices_among_values() {
    Value* indices = nullptr;
    for (Value* value : values_) {
      if (index_dtype(value->type.dtype) && (!indices || flip())) indices = value;
    }
    return indices;
  }

  Value* indexing(Op op, Value* x) {
    Value* indices = indices_among_values();
    if (!indices || x->type.rank() + indices->type.rank() > 5) return nullptr;
    if (op == Op::gather_nd) return create(op, {x, indices});
    return create(op, {x, indices}, {{"axis", axis(x)}});
  }

  // The updates are elements of x that the same indices gather, for any x of their type and shape.
  Value* scatter(Op op, Value* x) {
    Value* indices = indices_among_values();
    if (!indices || x->type.rank() + indices->type.rank() > 5) return nullptr;
    const std::vector<std::string> reductions = {"none", "add", "mul", "min", "max"};
    std::string reduction = number_dtype(x->type.dtype) ? pick(reductions) : "none";
    const bool elements = op == Op::scatter_elements;
    Value* updates =
        elements ? create(Op::gather_elements, {x, indices}, {{"axis", axis(x)}}) : create(Op::gather_nd, {x, indices});
    if (!updates) return nullptr;
    AttributeList attributes = {{"reduction", reduction}};
    if (elements) attributes.set("axis", axis(x));
    return create(op, {x, indices, updates}, std::move(attributes));
  }

  bool ordering(Op op, Value* x) {
    if (x->type.rank() == 0) return false;
    const int64_t at = axis(x);
    const Dim& length = x->type.shape[static_cast<size_t>(at)];
    const Dim k = flip() ? length : flip() ? Dim(1) : Dim(random_.between(0, 3));
    Result<Operation*> made = builder_->create(op, {x}, {{"axis", at}, {"k", k}, {"largest", flip()}});
    if (!made) return false;
    for (size_t i = 0; i < (*made)->result_count(); ++i) values_.push_back((*made)->result(i));
    return true;
  }

  Value* reduction(Op op, Value* x) {
    if (op == Op::cumsum) return create(op, {x}, {{"axis", axis(x)}, {"exclusive", flip()}, {"reverse", flip()}});
    if (op == Op::argmax) return create(op, {x}, {{"axis", axis(x)}, {"keepdims", flip()}, {"select_last", flip()}});
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < x->type.rank(); ++i) {
      if (flip()) axes.push_back(i);
    }
    return create(op, {x}, {{"axes", axes}, {"keepdims", flip()}});
  }

  Value* contraction(Op op, Value* x) {
    if (op == Op::conv) return nullptr;  // needs a constant channel count; the golden and numpy cases cover it
    return create(op, {x, partner(x)}, {{"transpose_lhs", flip()}, {"transpose_rhs", flip()}});
  }

  Value* composite(Op op, Value* x) {
    if (op == Op::softmax || op == Op::log_softmax) return create(op, {x}, {{"axis", axis(x)}});
    if (op == Op::layer_norm || op == Op::rms_norm)
      return create(op, {x, constant(x->type.dtype)}, {{"axis", axis(x)}});
    if (op == Op::quantize || op == Op::dequantize) return quantization(op, x);
    return create(op, {x});
  }

  // With scales that are powers of two, so that no device rounds a quotient or product to another integer.
  Value* quantization(Op op, Value* x) {
    DType other = pick(std::vector<DType>{DType::i8, DType::u8, DType::i16});
    if (op == Op::quantize ? !float_dtype(x->type.dtype) : !quantized_dtype(x->type.dtype)) return nullptr;
    const DType integers = op == Op::quantize ? other : x->type.dtype;
    const DType reals = op == Op::quantize ? x->type.dtype : pick(std::vector<DType>{DType::f32, DType::f16});
    const int64_t at = axis(x);
    const bool along = x->type.rank() > 0 && x->type.shape[at].is_constant() && flip();
    const int64_t block = along && flip() ? random_.between(1, 3) : 0;
    std::vector<int64_t> shape;
    if (along && block == 0) shape = {x->type.shape[at].constant()};
    for (int i = 0; block > 0 && i < x->type.rank(); ++i) {
      if (!x->type.shape[i].is_constant()) return nullptr;
      const int64_t size = x->type.shape[i].constant();
      shape.push_back(i == at ? (size + block - 1) / block : size);
    }
    Tensor scale(reals, shape), zero(integers, shape);
    for (int64_t i = 0; i < scale.element_count(); ++i) {
      scale.set_f64(i, flip() ? 0.5 : 4);
      zero.set_i64(i, random_.between(0, 7));
    }
    std::vector<Value*> operands = {x, create(Op::constant, {}, {{"value", std::move(scale)}})};
    if (flip()) operands.push_back(create(Op::constant, {}, {{"value", std::move(zero)}}));
    return create(op, std::move(operands),
                  {{"to", op == Op::quantize ? other : reals}, {"axis", at}, {"block", block}});
  }

  void finish() {
    std::vector<Value*> outputs;
    for (int64_t i = random_.between(1, 4); i > 0; --i) {
      outputs.push_back(values_[values_.size() - 1 -
                                static_cast<size_t>(random_.between(
                                    0, std::min<int64_t>(7, static_cast<int64_t>(values_.size()) - 1)))]);
      function_->output_names.push_back(concat("out", outputs.size()));
    }
    function_->block.insert(nullptr, Op::yield, std::move(outputs), {}, {});
  }

  Random& random_;
  std::unique_ptr<Module> module_;
  Function* function_;
  std::optional<Builder> builder_;
  std::vector<Value*> values_;
};

}  // namespace

std::unique_ptr<Module> random_module(Random& random, int operations) { return Generator(random).run(operations); }

}  // namespace rtx::testing
