#include "ir/evaluate.h"

#include <unordered_map>

#include "base/text.h"

namespace rtx {

namespace {

// No single tensor of an evaluation is larger; the figure is a guard against absurd shapes, not a budget.
constexpr int64_t max_tensor_bytes = int64_t{64} << 30;

std::string shape_str(const std::vector<int64_t>& shape) {
  return concat("[", join(shape, ", ", [](int64_t dim) { return dim; }), "]");
}

// A zero-filled tensor of the type under the binding.
Result<Tensor> concrete_result(const Type& type, const SymbolValues& symbols) {
  std::vector<int64_t> shape;
  int64_t elements = 1;
  bool overflow = false;
  for (const Dim& dim : type.shape) {
    RTX_ASSIGN(int64_t size, dim.evaluate(symbols));
    if (size < 0) {
      return make_error(ErrorKind::invalid, "E347", concat("size ", dim.str(), " of ", type.str(), " is negative"))
          .with_got(concat(size));
    }
    // Empty tensors may have any other axes, so zero must not hide an overflow of the rest from strides.
    overflow = overflow || __builtin_mul_overflow(elements, size == 0 ? 1 : size, &elements);
    shape.push_back(size);
  }
  std::optional<int64_t> bytes = overflow ? std::nullopt : packed_bytes(type.dtype, elements);
  if (!bytes || *bytes > max_tensor_bytes) {
    return make_error(ErrorKind::limit, "E504", concat("a tensor of shape ", shape_str(shape), " is too large"))
        .with_expected(concat("at most ", max_tensor_bytes, " bytes"));
  }
  return Tensor(type.dtype, std::move(shape));
}

Result<void> check_operand(const Type& type, const Tensor& tensor, const SymbolValues& symbols) {
  bool fits = type.dtype == tensor.dtype && type.shape.size() == tensor.shape.size();
  for (size_t i = 0; fits && i < type.shape.size(); ++i) {
    RTX_ASSIGN(int64_t size, type.shape[i].evaluate(symbols));
    fits = size == tensor.shape[i];
  }
  if (fits) return Ok{};
  return make_error(ErrorKind::internal, "E348", "an operand does not have the type of its value")
      .with_expected(type.str())
      .with_got(tensor.type_str());
}

// Puts the origin of the operation in front of an error.
Error at(const Operation& operation, Error error) {
  if (operation.origins.empty()) return error;
  return std::move(error).within(concat("node ", join(operation.origins, ", ")));
}

// The tensors of a block while it runs; a tensor is dropped after its last use.
class Environment {
 public:
  void define(const Value* value, Tensor tensor) {
    if (value->uses().empty()) return;
    live_.emplace(value, Live{std::move(tensor), value->uses().size()});
  }
  const Tensor* find(const Value* value) const { return &live_.at(value).tensor; }
  void release(const Operation& operation) {
    for (const Value* operand : operation.operands()) {
      auto entry = live_.find(operand);
      if (--entry->second.remaining_uses == 0) live_.erase(entry);
    }
  }
  Tensor take(const Value* value) {
    Live& live = live_.at(value);
    return --live.remaining_uses == 0 ? std::move(live.tensor) : live.tensor;
  }

 private:
  struct Live {
    Tensor tensor;
    size_t remaining_uses;
  };
  std::unordered_map<const Value*, Live> live_;
};

}  // namespace

Result<std::vector<Tensor>> evaluate(const Operation& operation, std::span<const Tensor* const> operands,
                                     const SymbolValues& symbols, const WeightStore* weights) {
  if (operands.size() != operation.operand_count()) {
    return make_error(ErrorKind::internal, "E348",
                      concat("'", to_string(operation.op), "' got ", operands.size(), " operands instead of ",
                             operation.operand_count()));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    RTX_TRY(check_operand(operation.operand(i)->type, *operands[i], symbols));
  }
  if (operation.body()) {
    std::vector<Tensor> arguments;
    for (const Tensor* operand : operands) arguments.push_back(*operand);
    return evaluate(*operation.body(), std::move(arguments), symbols, weights);
  }
  std::vector<Tensor> results;
  for (size_t i = 0; i < operation.result_count(); ++i) {
    RTX_ASSIGN(Tensor result, concrete_result(operation.result(i)->type, symbols));
    results.push_back(std::move(result));
  }
  return operation.spec().evaluate({operation.op, operands, operation.attributes, symbols, results, weights});
}

Result<std::vector<Tensor>> evaluate(const Block& block, std::vector<Tensor> arguments, const SymbolValues& symbols,
                                     const WeightStore* weights) {
  if (arguments.size() != block.argument_count()) {
    return make_error(ErrorKind::internal, "E348", concat("a block got ", arguments.size(), " arguments"))
        .with_expected(concat(block.argument_count(), " arguments"));
  }
  Environment environment;
  for (size_t i = 0; i < block.argument_count(); ++i) environment.define(block.argument(i), std::move(arguments[i]));
  for (const auto& operation : block.operations()) {
    if (operation->is(Op::yield)) {
      std::vector<Tensor> results;
      for (const Value* operand : operation->operands()) results.push_back(environment.take(operand));
      return results;
    }
    std::vector<const Tensor*> operands;
    for (const Value* operand : operation->operands()) operands.push_back(environment.find(operand));
    Result<std::vector<Tensor>> results = evaluate(*operation, operands, symbols, weights);
    if (!results) return at(*operation, std::move(results).error());
    environment.release(*operation);
    for (size_t i = 0; i < operation->result_count(); ++i) {
      environment.define(operation->result(i), std::move((*results)[i]));
    }
  }
  return make_error(ErrorKind::internal, "E348", "a block does not end in 'yield'");
}

Result<std::vector<Tensor>> evaluate(const Function& function, std::vector<Tensor> inputs, const WeightStore& weights,
                                     const SymbolRanges& ranges) {
  std::vector<Type> types;
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;
  if (inputs.size() != function.block.argument_count()) {
    return make_error(ErrorKind::invalid, "E343", concat("'", function.name, "' got ", inputs.size(), " inputs"))
        .with_expected(concat(function.block.argument_count(), " inputs"));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value* argument = function.block.argument(i);
    if (inputs[i].dtype != argument->type.dtype) {
      return make_error(ErrorKind::invalid, "E344",
                        concat("input \"", escape_text(argument->name), "\" has another dtype"))
          .with_expected(argument->type.str())
          .with_got(inputs[i].type_str());
    }
    types.push_back(argument->type);
    names.push_back(argument->name);
    shapes.push_back(inputs[i].shape);
  }
  RTX_ASSIGN(SymbolValues symbols, bind_symbols(types, names, shapes, ranges));
  return evaluate(function.block, std::move(inputs), symbols, &weights);
}

namespace {

struct Axis {
  size_t input, axis;
  Dim dim;
  int64_t size;
};

std::string describe(const Axis& axis, std::span<const std::string> names) {
  return concat("axis ", axis.axis, " of input \"", escape_text(names[axis.input]), "\"");
}

// Solves the axes that leave exactly one symbol open, until nothing changes: `past + seq` gives `past` once `seq` is
// known. Lone symbols come first, since they need nothing else.
void solve_axes(const std::vector<Axis>& axes, SymbolValues& values) {
  bool progress = true;
  while (progress) {
    progress = false;
    for (const Axis& axis : axes) {
      std::vector<std::string> symbols;
      axis.dim.collect_symbols(symbols);
      Dim open = axis.dim;
      for (const std::string& symbol : symbols) {
        auto known = values.find(symbol);
        if (known != values.end()) open = open.substituted(symbol, Dim(known->second));
      }
      if (open.is_constant() || open.overflowed()) continue;
      std::optional<Dim::Solution> solution = Dim::solve(open, Dim(axis.size));
      if (!solution || !solution->value.is_constant()) continue;
      progress = values.emplace(solution->symbol, solution->value.constant()).second || progress;
    }
  }
}

}  // namespace

Result<SymbolValues> bind_symbols(std::span<const Type> types, std::span<const std::string> names,
                                  std::span<const std::vector<int64_t>> shapes, const SymbolRanges& ranges) {
  std::vector<Axis> axes;
  SymbolValues values;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i].shape.size() != shapes[i].size()) {
      return make_error(ErrorKind::invalid, "E345", concat("input \"", escape_text(names[i]), "\" has another rank"))
          .with_expected(types[i].str())
          .with_got(shape_str(shapes[i]));
    }
    for (size_t k = 0; k < shapes[i].size(); ++k) {
      axes.push_back({i, k, types[i].shape[k], shapes[i][k]});
      if (std::optional<std::string> symbol = types[i].shape[k].as_symbol()) values.emplace(*symbol, shapes[i][k]);
    }
  }
  solve_axes(axes, values);
  for (const Axis& axis : axes) {
    RTX_ASSIGN(int64_t expected, axis.dim.evaluate(values));
    if (expected != axis.size) {
      return make_error(ErrorKind::invalid, "E345", concat(describe(axis, names), " does not fit"))
          .with_expected(axis.dim.is_constant() ? axis.dim.str() : concat(axis.dim.str(), " = ", expected))
          .with_got(concat(axis.size));
    }
  }
  for (const auto& [symbol, value] : values) {
    auto range = ranges.find(symbol);
    if (range == ranges.end() || (value >= range->second.min && value <= range->second.max)) continue;
    return make_error(ErrorKind::invalid, "E346", concat("dim '", symbol, "' is out of its range"))
        .with_expected(concat(range->second.min, "..", range->second.max))
        .with_got(concat(value));
  }
  return values;
}

}  // namespace rtx
