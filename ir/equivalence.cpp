#include "ir/equivalence.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "ir/evaluate.h"
#include "ir/text.h"

namespace rtx {

uint64_t Random::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t Random::between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
}

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, Random& random, bool specials) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double special_values[] = {0.0, -0.0, 1.0, -1.0, infinity, -infinity, NAN};
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0, n = tensor.element_count(); i < n; ++i) {
    if (dtype == DType::boolean) {
      tensor.set_i64(i, random.between(0, 1));
    } else if (!is_float(dtype)) {
      tensor.set_i64(i, random.between(is_signed(dtype) ? -4 : 0, 7));
    } else if (specials && random.chance(3)) {
      tensor.set_f64(i, special_values[random.between(0, 6)]);
    } else {
      tensor.set_f64(
          i, static_cast<double>(random.between(-40, 40)) / 16 + static_cast<double>(random.between(0, 9)) / 1000);
    }
  }
  return tensor;
}

void fill_weights(Module& module, double scale) {
  for (const auto& function : module.functions) {
    for (const auto& operation : function->block.operations()) {
      if (!operation->is(Op::weight)) continue;
      const std::string& name = operation->attributes.string("name");
      uint64_t seed = 0;
      for (char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
      Random random(seed);
      std::vector<int64_t> shape;
      for (const Dim& dim : operation->attributes.dims("shape")) shape.push_back(dim.constant());
      Tensor tensor = random_tensor(operation->attributes.dtype("dtype"), std::move(shape), random, false);
      if (scale != 1 && is_float(tensor.dtype)) {
        for (int64_t i = 0; i < tensor.element_count(); ++i) tensor.set_f64(i, tensor.f64(i) * scale);
      }
      module.weights->add(name, std::move(tensor));
    }
  }
}

namespace {

bool same_bits(const Tensor& a, const Tensor& b, std::string& where) {
  if (a.dtype != b.dtype || a.shape != b.shape) {
    where = concat(a.type_str(), " became ", b.type_str());
    return false;
  }
  for (int64_t i = 0, n = a.element_count(); i < n; ++i) {
    bool same = false;
    if (is_float(a.dtype)) {
      double x = a.f64(i), y = b.f64(i);
      same = (std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y));
    } else {
      same = a.i64(i) == b.i64(i);
    }
    if (!same) {
      where = concat("element ", i, " of ", a.type_str(), " was ", a.f64(i), " and became ", b.f64(i));
      return false;
    }
  }
  return true;
}

bool is_close(const Tensor& a, const Tensor& b, double tolerance, std::string& where) {
  if (a.dtype != b.dtype || a.shape != b.shape || !is_float(a.dtype)) return same_bits(a, b, where);
  double error = 0, size = 0;
  for (int64_t i = 0, n = a.element_count(); i < n; ++i) {
    const double x = a.f64(i), y = b.f64(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      size += std::isfinite(x) ? x * x : 0;
    } else {
      error += (x - y) * (x - y);
      size += x * x;
    }
  }
  if (std::sqrt(error) <= tolerance * std::sqrt(size)) return true;
  where = concat(a.type_str(), " is off by ", std::sqrt(error), " of ", std::sqrt(size));
  return false;
}

SymbolValues random_binding(const Module& module, Random& random) {
  SymbolValues values;
  for (const auto& [name, range] : module.symbols) {
    int64_t low = random.chance(4) ? range.min : std::max<int64_t>(range.min, 1);
    values[name] = random.between(low, std::max(low, std::min(range.max, low + 5)));
  }
  return values;
}

Result<std::vector<Tensor>> random_inputs(const Function& function, const SymbolValues& symbols, Random& random,
                                          bool specials) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < function.block.argument_count(); ++i) {
    const Type& type = function.block.argument(i)->type;
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape) {
      RTX_ASSIGN(int64_t size, dim.evaluate(symbols));
      if (size < 0) return make_error(ErrorKind::invalid, "E347", "negative size");
      shape.push_back(size);
    }
    inputs.push_back(random_tensor(type.dtype, std::move(shape), random, specials));
  }
  return inputs;
}

}  // namespace

std::optional<std::string> describe_difference(const Tensor& before, const Tensor& after, double tolerance) {
  std::string where;
  const bool same = tolerance > 0 ? is_close(before, after, tolerance, where) : same_bits(before, after, where);
  if (same) return std::nullopt;
  return where;
}

std::optional<Difference> difference_of(const Module& before, const Module& after, uint64_t seed, double tolerance,
                                        int rounds, const AdjustInput& adjust) {
  using Kind = Difference::Kind;
  if (before.functions.size() != after.functions.size())
    return Difference{Kind::interface, "the number of functions differs"};
  Random random(seed);
  for (const auto& function : before.functions) {
    const Function* changed = after.find(function->name);
    if (!changed) return Difference{Kind::interface, concat("function '", function->name, "' is gone")};
    if (changed->output_names != function->output_names)
      return Difference{Kind::interface, concat("outputs of '", function->name, "' differ")};
    int evaluated = 0;
    std::string last_error;
    for (int round = 0; round < rounds; ++round) {
      SymbolValues symbols = random_binding(before, random);
      Result<std::vector<Tensor>> inputs = random_inputs(*function, symbols, random, tolerance == 0 && round % 2 == 1);
      if (!inputs) continue;
      for (size_t i = 0; adjust && i < inputs->size(); ++i) adjust(function->block.argument(i)->name, (*inputs)[i]);
      Result<std::vector<Tensor>> expected = evaluate(*function, *inputs, *before.weights, before.symbols);
      if (!expected) {  // not every binding suits every module: a slice may leave its axis
        last_error = to_string(expected.error().first());
        continue;
      }
      ++evaluated;
      Result<std::vector<Tensor>> got = evaluate(*changed, *inputs, *after.weights, after.symbols);
      if (!got) {
        return Difference{Kind::after_fails,
                          concat("evaluation fails after the change: ", to_string(got.error().first()))};
      }
      for (size_t i = 0; i < expected->size(); ++i) {
        if (const auto where = describe_difference((*expected)[i], (*got)[i], tolerance)) {
          return Difference{Kind::output,
                            concat("output \"", function->output_names[i], "\" of '", function->name, "' in round ",
                                   round, " of seed ", static_cast<int64_t>(seed), ": ", *where)};
        }
      }
    }
    if (evaluated == 0) {
      return Difference{Kind::not_evaluated,
                        concat("function '", function->name, "' could not be evaluated: ", last_error)};
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_difference(const Module& before, const Module& after, uint64_t seed, double tolerance,
                                           int rounds, const AdjustInput& adjust) {
  std::optional<Difference> difference = difference_of(before, after, seed, tolerance, rounds, adjust);
  if (!difference) return std::nullopt;
  return std::move(difference->text);
}

}  // namespace rtx
