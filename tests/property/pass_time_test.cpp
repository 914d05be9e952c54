// Passes, fusing and planning take time in proportion to the number of layers.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text.h"
#include "codegen/build_package.h"
#include "tests/equivalence.h"

namespace rtx::testing {
namespace {

// An encoder as exporters take it apart: attention in products, softmax and moves, erf gelu, norms, residual sums.
class Encoder {
 public:
  explicit Encoder(int layers) : builder_(module_->add_function("main")->block) {
    const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
    module_->symbols = {{"batch", {1, 64, 8}}, {"seq", {1, 512, 128}}};
    Value* x = builder_.block().add_argument({DType::f32, {batch, seq, width}}, "x");
    Value* mask = builder_.block().add_argument({DType::f32, {batch, 1, 1, seq}}, "mask");
    for (int layer = 0; layer < layers; ++layer) {
      builder_.origins = {concat("layer ", layer)};
      Value* q = heads(linear(x, width, width), {0, 2, 1, 3});
      Value* k = heads(linear(x, width, width), {0, 2, 3, 1});
      Value* v = heads(linear(x, width, width), {0, 2, 1, 3});
      Value* scores = make(Op::div, {make(Op::matmul, {q, k}), number(std::sqrt(8.0))});
      Value* weights = make(Op::softmax, {make(Op::add, {scores, mask})}, {{"axis", int64_t{3}}});
      Value* joined =
          make(Op::transpose, {make(Op::matmul, {weights, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
      joined = make(Op::reshape, {joined}, {{"shape", Shape{batch, seq, width}}});
      x = norm(make(Op::add, {linear(joined, width, width), x}));
      Value* inner = linear(x, width, 4 * width);
      Value* erf = make(Op::erf, {make(Op::div, {inner, number(std::sqrt(2.0))})});
      inner = make(Op::mul, {make(Op::mul, {inner, make(Op::add, {erf, number(1)})}), number(0.5)});
      x = norm(make(Op::add, {linear(inner, 4 * width, width), x}));
    }
    builder_.block().insert(nullptr, Op::yield, {x}, {}, {});
    module_->functions[0]->output_names = {"y"};
    fill_weights(*module_);
  }

  std::unique_ptr<Module> take() { return std::move(module_); }

 private:
  static constexpr int64_t width = 32;

  Value* make(Op op, std::vector<Value*> operands, AttributeList attributes = {}) {
    Result<Value*> made = builder_.value(op, std::move(operands), std::move(attributes));
    REQUIRE_MESSAGE(made, to_string(made.error().first()));
    return *made;
  }
  Value* weight(Shape shape) {
    return make(Op::weight, {},
                {{"name", concat("w", next_weight_++)}, {"dtype", DType::f32}, {"shape", std::move(shape)}});
  }
  Value* number(double value) {
    Tensor tensor(DType::f32, {});
    tensor.set_f64(0, value);
    return builder_.constant(std::move(tensor)).value();
  }
  Value* linear(Value* x, int64_t rows, int64_t columns) {
    return make(Op::add, {make(Op::matmul, {x, weight({rows, columns})}), weight({columns})});
  }
  Value* norm(Value* x) { return make(Op::layer_norm, {x, weight({width}), weight({width})}, {{"axis", int64_t{2}}}); }
  Value* heads(Value* x, std::vector<int64_t> perm) {
    Value* split = make(Op::reshape, {x}, {{"shape", Shape{Dim::symbol("batch"), Dim::symbol("seq"), 4, width / 4}}});
    return make(Op::transpose, {split}, {{"perm", std::move(perm)}});
  }

  std::unique_ptr<Module> module_ = std::make_unique<Module>();
  Builder builder_;
  int next_weight_ = 0;
};

struct Planned {
  double ms = 0;  // the least of eight runs, as the machine may do other work too: canonical, optimize, fuse, plan
  size_t steps = 0, kernels = 0;
};

Planned plan_encoder(int layers) {
  Planned best{1e9};
  for (int run = 0; run < 8; ++run) {
    const std::unique_ptr<Module> module = Encoder(layers).take();
    const auto start = std::chrono::steady_clock::now();
    const Result<codegen::ModulePlan> plan = codegen::plan(*module, {});
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    REQUIRE_MESSAGE(plan, to_string(plan.error().first()));
    best = {std::min(best.ms, elapsed.count()), plan->programs[0].steps.size(), plan->kernels.size()};
  }
  return best;
}

TEST_CASE("48 layers take less than 2 s, and eight times the layers nowhere near 64 times as long") {
  const Planned few = plan_encoder(12), many = plan_encoder(48), most = plan_encoder(96);
  MESSAGE("12 layers " << few.ms << " ms, 48 layers " << many.ms << " ms, 96 layers " << most.ms << " ms, "
                       << most.steps << " steps of " << most.kernels << " kernels");
  CHECK(many.ms < 2000);
  CHECK(most.ms < 18 * few.ms);  // 8 if linear, 64 if quadratic
  // Each layer is the same few kernels.
  CHECK(many.steps - few.steps == 36 * (most.steps - many.steps) / 48);
  CHECK((most.steps - many.steps) % 48 == 0);
  CHECK(most.kernels == few.kernels);
}

}  // namespace
}  // namespace rtx::testing
