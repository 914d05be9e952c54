// Bodies for tests of the CPU device: built op by op, run by the evaluator and by the device's loops.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ir/evaluate.h"
#include "ir/module.h"
#include "runtime/cpu/body_planner.h"

namespace rtx {

template <typename T>
T must(Result<T> result) {
  if (!result) FAIL(to_string(result.error().first()));
  return std::move(result).value();
}
inline void must(Result<void> result) {
  if (!result) FAIL(to_string(result.error().first()));
}

struct BodyCase {
  Block block;
  std::vector<Tensor> inputs;
  SymbolValues symbols;

  Value* input(Tensor tensor) {
    Value* value = block.add_argument({tensor.dtype, Shape(tensor.shape.begin(), tensor.shape.end())});
    inputs.push_back(std::move(tensor));
    return value;
  }
  Value* op(Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
    return must(Builder(block).value(op, std::move(operands), std::move(attributes)));
  }
  void yield(std::vector<Value*> values) { block.insert(nullptr, Op::yield, std::move(values), {}, {}); }

  std::vector<Tensor> expected() { return must(evaluate(block, inputs, symbols, nullptr)); }

  std::vector<Tensor> run(runtime::cpu::Isa isa = runtime::cpu::best_isa(), int threads = 2) {
    namespace cpu = runtime::cpu;
    const cpu::BodyPlan plan = must(cpu::BodyPlanner::plan(block, symbols, isa));
    cpu::ThreadPool pool(threads);
    cpu::Workspace workspace;
    std::vector<Tensor> results;
    std::vector<cpu::AlignedBuffer> memory;  // as a device allocates it: vectors may be less aligned
    for (const Tensor& input : inputs) {
      memory.push_back(must(cpu::AlignedBuffer::allocate(static_cast<int64_t>(input.bytes.size()))));
      if (!input.bytes.empty()) std::memcpy(memory.back().data(), input.bytes.data(), input.bytes.size());
    }
    for (const Value* value : block.terminator()->operands()) {
      std::vector<int64_t> shape;
      for (const Dim& dim : value->type.shape) shape.push_back(must(dim.evaluate(symbols)));
      results.emplace_back(value->type.dtype, shape);
      memory.push_back(must(cpu::AlignedBuffer::allocate(static_cast<int64_t>(results.back().bytes.size()))));
      if (!results.back().bytes.empty()) std::memset(memory.back().data(), 0xa5, results.back().bytes.size());
    }
    std::vector<std::byte*> buffers;
    for (const cpu::AlignedBuffer& buffer : memory) buffers.push_back(buffer.data());
    must(plan.run(buffers, pool, workspace));
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].bytes.empty())
        std::memcpy(results[i].bytes.data(), buffers[inputs.size() + i], results[i].bytes.size());
    }
    return results;
  }
};

// Relative error by norm, |got - want| / |want|, over the finite elements; all others must be the same.
inline double norm_error(const Tensor& got, const Tensor& want) {
  REQUIRE(got.dtype == want.dtype);
  REQUIRE(got.shape == want.shape);
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < want.element_count(); ++i) {
    const double a = got.f64(i), b = want.f64(i);
    if (!std::isfinite(b) || !std::isfinite(a)) {
      if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
      INFO("element ", i, " is ", a, ", not ", b);
      CHECK(false);
      continue;
    }
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

// What a dtype allows: f32 by the determinism suite, the narrow ones one rounding more than the evaluator.
inline double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-14;
    case DType::f32:
      return 1e-6;
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 4e-3;
    default:
      return 0;
  }
}

inline Tensor random_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, double low = -2, double high = 2) {
  Tensor tensor(dtype, std::move(shape));
  std::mt19937_64 generator(seed);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    // Not a library distribution: those differ between implementations.
    const double unit = static_cast<double>(generator() >> 11) * 0x1p-53;
    if (is_float(dtype))
      tensor.set_f64(i, low + (high - low) * unit);
    else if (dtype == DType::boolean)
      tensor.set_i64(i, generator() & 1);
    else
      tensor.set_i64(i, static_cast<int64_t>(std::floor((low + (high - low) * unit) * 8)));
  }
  return tensor;
}

// Runs the case with all instruction sets and 1, 2 and 3 threads: equal bits, and close to the evaluator.
inline void check_body(BodyCase& body, double allowed = -1) {
  const std::vector<Tensor> want = body.expected();
  const std::vector<Tensor> first = body.run(runtime::cpu::Isa::baseline, 1);
  REQUIRE(first.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CHECK(norm_error(first[i], want[i]) <= (allowed < 0 ? tolerance(want[i].dtype) : allowed));
  }
  for (runtime::cpu::Isa isa : runtime::cpu::supported_isas()) {
    for (int threads = 1; threads <= 3; ++threads) {
      INFO("instruction set ", to_string(isa), ", threads ", threads);
      CHECK(body.run(isa, threads) == first);
    }
  }
}

}  // namespace rtx
