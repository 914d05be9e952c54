// What the CPU device promises for every body, tried on random ones: each value is what its op gives for the operands
// that the device itself computed, and bits do not depend on what else is a result, on the number of threads or on the
// instruction set. A failure prints the seed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/text.h"
#include "ir/evaluate.h"
#include "ir/text.h"
#include "runtime/cpu/body_planner.h"
#include "tests/equivalence.h"
#include "tests/property/random_module.h"

namespace rtx::testing {
namespace {

namespace cpu = runtime::cpu;

constexpr uint64_t body_count = 400;

// A body made of a function: weights become arguments.
struct Sample {
  Block block;
  std::vector<Value*> outputs;
  std::vector<Tensor> inputs;
  SymbolValues symbols;

  void yield(std::vector<Value*> values) {
    if (Operation* old = block.terminator()) block.erase(old);
    block.insert(nullptr, Op::yield, std::move(values), {}, {});
  }
  std::vector<Value*> all_values() const {
    std::vector<Value*> values;
    for (const auto& operation : block.operations()) {
      for (size_t i = 0; i < operation->result_count(); ++i) values.push_back(operation->result(i));
    }
    return values;
  }
};

std::vector<int64_t> concrete(const Type& type, const SymbolValues& symbols) {
  std::vector<int64_t> shape;
  for (const Dim& dim : type.shape) shape.push_back(*dim.evaluate(symbols));
  return shape;
}

void fill_sample(Sample& sample, uint64_t seed) {
  Random random(seed);
  const std::unique_ptr<Module> module = random_module(random, static_cast<int>(random.between(1, 30)));
  fill_weights(*module);
  for (const auto& [name, range] : module->symbols) {
    sample.symbols[name] = random.between(range.min, std::min(range.max, range.min + 6));
  }
  const Block& from = module->functions[0]->block;
  std::vector<Value*> arguments;
  for (size_t i = 0; i < from.argument_count(); ++i) {
    const Type& type = from.argument(i)->type;
    arguments.push_back(sample.block.add_argument(type));
    sample.inputs.push_back(random_tensor(type.dtype, concrete(type, sample.symbols), random, random.chance(3)));
  }
  sample.outputs = inline_block(from, sample.block, nullptr, arguments);
  std::vector<Operation*> weights;
  for (const auto& operation : sample.block.operations()) {
    if (operation->is(Op::weight)) weights.push_back(operation.get());
  }
  for (Operation* weight : weights) {
    Value* argument = sample.block.add_argument(weight->result()->type);
    sample.inputs.push_back(*module->weights->load(weight->attributes.string("name")));
    for (Value*& output : sample.outputs) {
      if (output == weight->result()) output = argument;
    }
    weight->result()->replace_all_uses_with(argument);
    sample.block.erase(weight);
  }
}

// The results of the body; empty where it reads outside an operand under this binding.
std::vector<Tensor> run(const Sample& sample, cpu::Isa isa, int threads) {
  Result<cpu::BodyPlan> plan = cpu::BodyPlanner::plan(sample.block, sample.symbols, isa);
  if (!plan) {
    REQUIRE_MESSAGE(plan.error().first().kind == ErrorKind::invalid, to_string(plan.error().first()));
    return {};
  }
  std::vector<cpu::AlignedBuffer> memory;
  std::vector<std::byte*> buffers;
  for (int64_t bytes : plan->bytes) {
    memory.push_back(cpu::AlignedBuffer::allocate(bytes).value());
    buffers.push_back(memory.back().data());
    std::memset(buffers.back(), 0xa5, static_cast<size_t>(bytes));
  }
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    if (!sample.inputs[i].bytes.empty())
      std::memcpy(buffers[i], sample.inputs[i].bytes.data(), sample.inputs[i].bytes.size());
  }
  cpu::ThreadPool pool(threads);
  cpu::Workspace workspace;
  const Result<void> ran = plan->run(buffers, pool, workspace);
  REQUIRE_MESSAGE(ran, to_string(ran.error().first()));
  std::vector<Tensor> results;
  for (const Value* value : sample.block.terminator()->operands()) {
    Tensor result(value->type.dtype, concrete(value->type, sample.symbols));
    if (!result.bytes.empty())
      std::memcpy(result.bytes.data(), buffers[sample.inputs.size() + results.size()], result.bytes.size());
    results.push_back(std::move(result));
  }
  return results;
}

// Any NaN equals any NaN: which one an op gives is not promised.
bool same(const Tensor& a, const Tensor& b) {
  if (a == b) return true;
  if (a.dtype != b.dtype || a.shape != b.shape || !is_float(a.dtype)) return false;
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const double x = a.f64(i), y = b.f64(i);
    if (!(x == y && std::signbit(x) == std::signbit(y)) && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

// Whether `got` is `want` but for rounding: a unit in the last place of the dtype, and for sums of products one of the
// largest term's.
bool close(const Tensor& got, const Tensor& want, double largest) {
  if (!is_float(got.dtype)) return got == want;
  const double unit = got.dtype == DType::f64   ? 1e-13
                      : got.dtype == DType::f32 ? 2e-7
                      : got.dtype == DType::f16 ? 1e-3
                                                : 8e-3;
  for (int64_t i = 0; i < got.element_count(); ++i) {
    const double x = got.f64(i), y = want.f64(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double allowed = unit * std::max(std::fabs(y), largest) + 1e-40;
    if (!std::isfinite(x) || !std::isfinite(y) || std::fabs(x - y) > allowed) return false;
  }
  return true;
}

double largest_of(std::span<const Tensor* const> operands) {
  double largest = 0;
  for (const Tensor* operand : operands) {
    for (int64_t i = 0; is_float(operand->dtype) && i < operand->element_count(); ++i) {
      const double x = std::fabs(operand->f64(i));
      if (std::isfinite(x)) largest = std::max(largest, x);
    }
  }
  return largest;
}

// Checks every operation of the body alone, on the operands that the device computed.
void check_each(const Sample& sample, const std::vector<Value*>& values, const std::vector<Tensor>& results,
                uint64_t seed) {
  std::map<const Value*, const Tensor*> known;
  for (size_t i = 0; i < sample.inputs.size(); ++i) known[sample.block.argument(i)] = &sample.inputs[i];
  for (size_t i = 0; i < values.size(); ++i) known[values[i]] = &results[i];
  for (const auto& operation : sample.block.operations()) {
    if (operation->is(Op::yield)) break;
    std::vector<const Tensor*> operands;
    for (const Value* operand : operation->operands()) operands.push_back(known.at(operand));
    const Result<std::vector<Tensor>> want = evaluate(*operation, operands, sample.symbols, nullptr);
    REQUIRE_MESSAGE(want, to_string(want.error().first()));
    // What adds up may cancel: its error is held against the largest term.
    const OpFamily family = operation->spec().family;
    const bool products = family == OpFamily::contraction;
    const bool sums = products || family == OpFamily::reduction || family == OpFamily::composite;
    double largest = sums ? largest_of(operands) : 0;
    if (products) largest *= 8 * largest;  // more terms than one
    for (size_t i = 0; i < want->size(); ++i) {
      const bool fits = close(*known.at(operation->result(i)), (*want)[i], largest);
      CHECK_MESSAGE(fits, "seed ", seed, ": ", print(*operation), "\n", print_body(sample.block));
    }
  }
}

TEST_CASE("every value of a random body is what the evaluator gives for its operands, with equal bits for any plan") {
  int checked = 0;
  for (uint64_t seed = 1; seed <= body_count; ++seed) {
    Sample sample;
    fill_sample(sample, seed);
    const std::vector<Value*> values = sample.all_values();
    if (values.empty()) continue;
    sample.yield(values);
    const std::vector<Tensor> all = run(sample, cpu::best_isa(), 1);
    if (all.empty()) continue;
    check_each(sample, values, all, seed);

    // Only the outputs as results: values are then kept in registers, or never made.
    sample.yield(sample.outputs);
    const std::vector<Tensor> first = run(sample, cpu::Isa::baseline, 2);
    REQUIRE(first.size() == sample.outputs.size());
    for (size_t i = 0; i < first.size(); ++i) {
      for (size_t k = 0; k < values.size(); ++k) {
        if (values[k] == sample.outputs[i]) CHECK_MESSAGE(same(first[i], all[k]), "seed ", seed, ", output ", i);
      }
    }
    const std::vector<Tensor> second = run(sample, cpu::best_isa(), 3);
    for (size_t i = 0; i < first.size(); ++i) CHECK_MESSAGE(same(first[i], second[i]), "seed ", seed, ", output ", i);
    ++checked;
  }
  CHECK(checked > static_cast<int>(body_count) / 2);
}

}  // namespace
}  // namespace rtx::testing
