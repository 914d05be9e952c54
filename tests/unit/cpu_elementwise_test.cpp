// Elementwise operations on the CPU device against the evaluator: every op and dtype, ragged sizes, broadcasts.
#include "tests/unit/cpu_body.h"

#include "base/text.h"

namespace rtx {
namespace {

// Longer than a task of the elementwise step (8192) and not a multiple of its block (1024).
const std::vector<int64_t> ragged = {3, 41, 83};

std::vector<Op> elementwise_ops(size_t operands) {
  std::vector<Op> ops;
  for (Op op : all_ops()) {
    const OpSpec& record = spec(op);
    const bool composite = op == Op::gelu || op == Op::silu;
    if ((record.family == OpFamily::elementwise || composite) && record.min_operands() == operands && op != Op::cast) {
      ops.push_back(op);
    }
  }
  return ops;
}

const DType all_dtypes[] = {DType::f64,    DType::f32, DType::f16, DType::bf16,   DType::f8e4m3,
                            DType::f8e5m2, DType::i64, DType::i32, DType::i16,    DType::i8,
                            DType::u8,     DType::u4,  DType::i4,  DType::boolean};

double low_for(Op op) { return op == Op::log || op == Op::sqrt || op == Op::rsqrt || op == Op::pow ? 0.01 : -2; }

TEST_CASE("every unary op agrees with the evaluator for every dtype, instruction set and number of threads") {
  for (Op op : elementwise_ops(1)) {
    for (DType dtype : all_dtypes) {
      if (!spec(op).operand(0).allows(dtype)) continue;
      INFO(to_string(op), " of ", to_string(dtype));
      BodyCase body;
      body.yield({body.op(op, {body.input(random_tensor(dtype, ragged, 1, low_for(op)))})});
      check_body(body);
    }
  }
}

TEST_CASE("every binary op agrees with the evaluator for every dtype and broadcast") {
  const std::vector<int64_t> shapes[][2] = {
      {ragged, ragged}, {{3, 41, 83}, {83}}, {{3, 1, 5}, {7, 1}}, {{}, {2, 3}},
      {{}, {}},         {{0, 4}, {1, 4}},    {{4, 1}, {4, 1100}}, {{2, 3, 1}, {2, 1, 1}}};
  for (Op op : elementwise_ops(2)) {
    for (DType dtype : all_dtypes) {
      if (!spec(op).operand(0).allows(dtype)) continue;
      for (const auto& shape : shapes) {
        INFO(to_string(op), " of ", to_string(dtype), ", ranks ", shape[0].size(), " and ", shape[1].size());
        BodyCase body;
        Value* lhs = body.input(random_tensor(dtype, shape[0], 2, low_for(op)));
        Value* rhs = body.input(random_tensor(dtype, shape[1], 3));
        body.yield({body.op(op, {lhs, rhs})});
        check_body(body);
      }
    }
  }
}

TEST_CASE("forms chosen by an attribute agree with the evaluator") {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    BodyCase body;
    Value* x = body.input(random_tensor(dtype, ragged, 4, -6, 6));
    Value* y = body.input(random_tensor(dtype, ragged, 5));
    body.yield({body.op(Op::gelu, {x}, {{"approximate", std::string("tanh")}}),
                body.op(Op::mod, {x, y}, {{"truncated", true}})});
    check_body(body);
  }
  for (DType dtype : {DType::i64, DType::i32, DType::i8, DType::u8}) {
    BodyCase body;
    Value* x = body.input(random_tensor(dtype, ragged, 6, -20, 20));
    Value* y = body.input(random_tensor(dtype, ragged, 7));
    body.yield({body.op(Op::mod, {x, y}, {{"truncated", true}})});
    check_body(body);
  }
}

TEST_CASE("select agrees with the evaluator for every dtype") {
  for (DType dtype : all_dtypes) {
    INFO(to_string(dtype));
    BodyCase body;
    Value* condition = body.input(random_tensor(DType::boolean, {41, 83}, 8));
    Value* x = body.input(random_tensor(dtype, ragged, 9));
    Value* y = body.input(random_tensor(dtype, {1}, 10));
    body.yield({body.op(Op::select, {condition, x, y})});
    check_body(body);
  }
}

TEST_CASE("every cast agrees with the evaluator exactly") {
  for (DType from : all_dtypes) {
    for (DType to : all_dtypes) {
      for (bool saturate : {false, true}) {
        INFO(to_string(from), " to ", to_string(to));
        BodyCase body;
        Tensor data = random_tensor(from, {3001}, 11, -40, 40);
        const double specials[] = {0.0,          -0.0,
                                   INFINITY,     -INFINITY,
                                   NAN,          1e9,
                                   -1e9,         1e19,
                                   -1e19,        3e38,
                                   0.5,          1.5,
                                   2.5,          65519,
                                   65520,        448,
                                   464,          465,
                                   57344,        61440,
                                   1e-8,         6e-8,
                                   3e-5,         255.5,
                                   2147483647.0, 9007199254740993.0};
        for (size_t i = 0; i < std::size(specials) && is_float(from); ++i)
          data.set_f64(static_cast<int64_t>(i), specials[i]);
        if (from == DType::i64 || from == DType::i32) {
          const int64_t integers[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, 16777217,
                                      16842753,  33685505,  2147483648,    -2147483649};
          for (size_t i = 0; i < std::size(integers); ++i) data.set_i64(static_cast<int64_t>(i), integers[i]);
        }
        body.yield({body.op(Op::cast, {body.input(data)}, {{"to", to}, {"saturate", saturate}})});
        check_body(body, 0);
      }
    }
  }
}

TEST_CASE("special values go through every float op as in the evaluator") {
  const double values[] = {0.0, -0.0, INFINITY, -INFINITY, NAN,  1.0,   -1.0, 0.5,    -0.5,  2.0,   -2.0,
                           3.0, -3.0, 1e-40,    -1e-40,    1e30, -1e30, 88.8, -104.0, 700.0, 1e-310};
  const int64_t n = static_cast<int64_t>(std::size(values));
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    Tensor rows(dtype, {n, 1}), columns(dtype, {n});
    for (int64_t i = 0; i < n; ++i) {
      rows.set_f64(i, values[i]);
      columns.set_f64(i, values[i]);
    }
    for (size_t operands : {1, 2}) {
      for (Op op : elementwise_ops(operands)) {
        if (!spec(op).operand(0).allows(dtype)) continue;
        INFO(to_string(op), " of ", to_string(dtype));
        BodyCase body;
        std::vector<Value*> in = {body.input(rows)};
        if (operands == 2) in.push_back(body.input(columns));
        body.yield({body.op(op, in)});
        const Tensor want = body.expected()[0];
        for (runtime::cpu::Isa isa : runtime::cpu::supported_isas()) {
          const Tensor got = body.run(isa, 1)[0];
          for (int64_t i = 0; i < want.element_count(); ++i) {
            const double a = got.f64(i), b = want.f64(i);
            INFO("operands ", values[operands == 2 ? i / n : i], " ", operands == 2 ? values[i % n] : 0, " give ", a,
                 ", not ", b);
            // A least subnormal of difference is a rounding.
            CHECK(((std::isnan(a) && std::isnan(b)) || a == b || std::fabs(a - b) <= std::fabs(b) * tolerance(dtype) ||
                   std::fabs(a - b) <= 1e-44));
            if (a == 0 && b == 0) CHECK(std::signbit(a) == std::signbit(b));
          }
        }
      }
    }
  }
}

TEST_CASE("a graph of elementwise ops with several results is rounded at each value") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    INFO(to_string(dtype));
    BodyCase body;
    Value* x = body.input(random_tensor(dtype, ragged, 12));
    Value* bias = body.input(random_tensor(dtype, {83}, 13));
    Value* sum = body.op(Op::add, {x, bias});
    Value* square = body.op(Op::mul, {sum, sum});
    Value* mixed = body.op(Op::sub, {square, x});
    Value* small = body.op(Op::less, {mixed, bias});
    Value* chosen = body.op(Op::select, {small, square, mixed});
    body.yield({chosen, small, sum, chosen, x});
    check_body(body);
  }
}

TEST_CASE("ops of different shapes in one body do not disturb each other") {
  BodyCase body;
  Value* x = body.input(random_tensor(DType::f32, {5, 700}, 14));
  Value* row = body.input(random_tensor(DType::f32, {700}, 15));
  Value* scaled = body.op(Op::mul, {row, row});
  Value* total = body.op(Op::add, {x, scaled});
  Value* moved = body.op(Op::transpose, {total}, {{"perm", std::vector<int64_t>{1, 0}}});
  Value* again = body.op(Op::neg, {moved});
  body.yield({again, scaled});
  check_body(body);
}

}  // namespace
}  // namespace rtx
