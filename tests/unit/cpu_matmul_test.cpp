// The CPU device's matrix products: accuracy, batches, and bits that depend on nothing but row, column and k.
#include "tests/unit/cpu_body.h"

namespace rtx {
namespace {

Tensor product(const Tensor& lhs, const Tensor& rhs, bool transpose_lhs, bool transpose_rhs, runtime::cpu::Isa isa,
               int threads) {
  BodyCase body;
  body.yield({body.op(Op::matmul, {body.input(lhs), body.input(rhs)},
                      {{"transpose_lhs", transpose_lhs}, {"transpose_rhs", transpose_rhs}})});
  return body.run(isa, threads)[0];
}

TEST_CASE("products of every dtype, transposition and ragged size agree with the evaluator") {
  const int64_t sizes[][3] = {{1, 1, 1},   {1, 70, 300}, {5, 3, 0},   {0, 4, 3},   {4, 0, 3},    {13, 33, 257},
                              {12, 32, 8}, {25, 65, 64}, {7, 129, 1}, {50, 5, 40}, {97, 160, 20}};
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [m, n, k] : sizes) {
      for (bool lhs_t : {false, true}) {
        for (bool rhs_t : {false, true}) {
          INFO(to_string(dtype), " ", m, " x ", n, " x ", k, lhs_t ? ", lhs" : "", rhs_t ? ", rhs" : "", " transposed");
          BodyCase body;
          Value* lhs = body.input(random_tensor(dtype, lhs_t ? std::vector{k, m} : std::vector{m, k}, 1));
          Value* rhs = body.input(random_tensor(dtype, rhs_t ? std::vector{n, k} : std::vector{k, n}, 2));
          body.yield({body.op(Op::matmul, {lhs, rhs}, {{"transpose_lhs", lhs_t}, {"transpose_rhs", rhs_t}})});
          check_body(body);
        }
      }
    }
  }
}

TEST_CASE("batches broadcast on either side") {
  const std::vector<int64_t> shapes[][2] = {
      {{3, 5, 7}, {7, 9}},    {{5, 7}, {3, 7, 9}}, {{2, 1, 5, 7}, {3, 7, 9}},    {{2, 3, 5, 7}, {2, 3, 7, 9}},
      {{4, 1, 7}, {4, 7, 9}}, {{0, 5, 7}, {7, 9}}, {{2, 3, 5, 7}, {1, 1, 7, 9}}, {{1, 3, 5, 7}, {2, 1, 7, 9}}};
  for (const auto& shape : shapes) {
    BodyCase body;
    body.yield({body.op(Op::matmul, {body.input(random_tensor(DType::f32, shape[0], 3)),
                                     body.input(random_tensor(DType::f32, shape[1], 4))})});
    check_body(body);
  }
}

TEST_CASE("a transposed view is multiplied like a copy") {
  BodyCase body;
  Value* x = body.input(random_tensor(DType::f32, {2, 6, 3, 8}, 5));
  Value* y = body.input(random_tensor(DType::f32, {2, 6, 3, 8}, 6));
  const AttributeList heads = {{"perm", std::vector<int64_t>{0, 2, 1, 3}}};
  Value *queries = body.op(Op::transpose, {x}, heads), *keys = body.op(Op::transpose, {y}, heads);
  Value* scores = body.op(Op::matmul, {queries, keys}, {{"transpose_rhs", true}});
  Value* odd = body.op(Op::slice, {x},
                       {{"starts", std::vector<Dim>{1, 0, 2, 7}},
                        {"sizes", std::vector<Dim>{1, 6, 3, 4}},
                        {"steps", std::vector<int64_t>{1, 1, -1, -2}}});
  Value* shared = body.op(Op::broadcast, {odd}, {{"shape", std::vector<Dim>{5, 6, 3, 4}}});
  body.yield(
      {scores, body.op(Op::matmul, {scores, keys}), body.op(Op::matmul, {shared, odd}, {{"transpose_lhs", true}})});
  check_body(body);
}

TEST_CASE("integer products are exact, and wrap") {
  for (DType dtype : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    for (bool transposed : {false, true}) {
      INFO(to_string(dtype));
      BodyCase body;
      Value* lhs = body.input(random_tensor(dtype, {3, 19, 301}, 7, -1e3, 1e3));
      Value* rhs = body.input(random_tensor(
          dtype, transposed ? std::vector<int64_t>{70, 301} : std::vector<int64_t>{301, 70}, 8, -1e3, 1e3));
      body.yield({body.op(Op::matmul, {lhs, rhs}, {{"transpose_rhs", transposed}})});
      check_body(body, 0);
    }
  }
  BodyCase body;
  body.yield({body.op(Op::matmul, {body.input(random_tensor(DType::i32, {9, 11}, 7)),
                                   body.input(random_tensor(DType::i32, {11, 4}, 8))})});
  check_body(body, 0);
}

TEST_CASE("the bits of a row depend neither on the number of rows nor on its place") {
  const int64_t k = 611, n = 171;
  for (bool transposed : {false, true}) {
    const Tensor rhs = random_tensor(DType::f32, transposed ? std::vector{n, k} : std::vector{k, n}, 9);
    const Tensor lhs = random_tensor(DType::f32, {131, k}, 10);
    for (runtime::cpu::Isa isa : runtime::cpu::supported_isas()) {
      const Tensor all = product(lhs, rhs, false, transposed, isa, 2);
      for (int64_t rows : {1, 2, 5, 12, 13, 60}) {
        const int64_t first = 131 - rows;
        Tensor part(DType::f32, {rows, k});
        std::memcpy(part.bytes.data(), lhs.data<float>() + first * k, part.bytes.size());
        const Tensor some = product(part, rhs, false, transposed, isa, 1);
        CHECK(std::memcmp(some.bytes.data(), all.data<float>() + first * n, some.bytes.size()) == 0);
      }
    }
  }
}

TEST_CASE("large products keep their bits for any number of threads and instruction set") {
  const Tensor lhs = random_tensor(DType::f32, {260, 700}, 11), rhs = random_tensor(DType::f32, {700, 333}, 12);
  const Tensor first = product(lhs, rhs, false, false, runtime::cpu::Isa::baseline, 1);
  for (runtime::cpu::Isa isa : runtime::cpu::supported_isas()) {
    for (int threads : {1, 2, 3, 7}) CHECK(product(lhs, rhs, false, false, isa, threads) == first);
  }
  // The order of summation is what is promised: an element by hand.
  float total = 0;
  for (int64_t run = 0; run < 700; run += 256) {
    float sum = 0;
    for (int64_t p = run; p < std::min<int64_t>(run + 256, 700); ++p) {
      const volatile float term = lhs.data<float>()[5 * 700 + p] * rhs.data<float>()[p * 333 + 17];
      sum += term;
    }
    total = run == 0 ? sum : total + sum;
  }
  CHECK(first.data<float>()[5 * 333 + 17] == total);
}

}  // namespace
}  // namespace rtx
