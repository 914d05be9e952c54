// Movement, indexing, reductions, rows and convolutions on the CPU device against the evaluator.
#include "runtime/cpu/reference_step.h"
#include "tests/unit/cpu_body.h"

namespace rtx {
namespace {

using Integers = std::vector<int64_t>;
using Dims = std::vector<Dim>;

const DType all_dtypes[] = {DType::f64,    DType::f32, DType::f16, DType::bf16,   DType::f8e4m3,
                            DType::f8e5m2, DType::i64, DType::i32, DType::i16,    DType::i8,
                            DType::u8,     DType::u4,  DType::i4,  DType::boolean};
const DType numbers[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                         DType::i16, DType::i8,  DType::u8,  DType::u4,   DType::i4};
const DType floats[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

void check_one(Tensor x, Op op, AttributeList attributes, double allowed = -1) {
  BodyCase body;
  body.yield({body.op(op, {body.input(std::move(x))}, std::move(attributes))});
  check_body(body, allowed);
}

TEST_CASE("movement ops keep bits for every dtype") {
  for (DType dtype : all_dtypes) {
    INFO(to_string(dtype));
    const Tensor x = random_tensor(dtype, {5, 6, 70}, 1);
    check_one(x, Op::transpose, {{"perm", Integers{1, 0, 2}}}, 0);
    check_one(x, Op::transpose, {{"perm", Integers{2, 1, 0}}}, 0);
    check_one(x, Op::transpose, {{"perm", Integers{0, 2, 1}}}, 0);
    check_one(x, Op::reshape, {{"shape", Dims{70, 30}}}, 0);
    check_one(x, Op::slice, {{"starts", Dims{4, 1, 69}}, {"sizes", Dims{3, 2, 24}}, {"steps", Integers{-2, 3, -3}}}, 0);
    check_one(x, Op::slice, {{"starts", Dims{0, 1, 0}}, {"sizes", Dims{5, 1, 70}}, {"steps", Integers{1, 1, 1}}}, 0);
    check_one(random_tensor(dtype, {6, 1}, 2), Op::broadcast, {{"shape", Dims{3, 6, 5}}}, 0);
    check_one(random_tensor(dtype, {}, 3), Op::broadcast, {{"shape", Dims{7, 9}}}, 0);
    check_one(random_tensor(dtype, {1, 3}, 3), Op::broadcast, {{"shape", Dims{0, 3}}}, 0);
  }
}

TEST_CASE("large transposes keep every element") {
  check_one(random_tensor(DType::f32, {300, 401}, 4), Op::transpose, {{"perm", Integers{1, 0}}}, 0);
  check_one(random_tensor(DType::f32, {3, 129, 4, 65}, 4), Op::transpose, {{"perm", Integers{0, 2, 1, 3}}}, 0);
  check_one(random_tensor(DType::i8, {3, 129, 4, 65}, 4), Op::transpose, {{"perm", Integers{0, 2, 3, 1}}}, 0);
  check_one(random_tensor(DType::f16, {33, 2, 500}, 4), Op::transpose, {{"perm", Integers{2, 0, 1}}}, 0);
}

TEST_CASE("views of views are resolved") {
  BodyCase body;
  Value* x = body.input(random_tensor(DType::f32, {4, 6, 10}, 5));
  Value* part =
      body.op(Op::slice, {x}, {{"starts", Dims{1, 5, 0}}, {"sizes", Dims{3, 6, 5}}, {"steps", Integers{1, -1, 2}}});
  Value* turned = body.op(Op::transpose, {part}, {{"perm", Integers{2, 0, 1}}});
  Value* flat = body.op(Op::reshape, {turned}, {{"shape", Dims{15, 6}}});
  Value* wide = body.op(Op::broadcast, {flat}, {{"shape", Dims{2, 15, 6}}});
  Value* sum = body.op(Op::add, {wide, wide});
  body.yield({sum, wide, turned, x});
  check_body(body, 0);
}

TEST_CASE("concat and pad agree with the evaluator") {
  for (DType dtype : all_dtypes) {
    INFO(to_string(dtype));
    for (int64_t axis : {0, 1, 2}) {
      BodyCase body;
      std::vector<int64_t> shape = {3, 4, 5};
      Value* a = body.input(random_tensor(dtype, shape, 6));
      shape[static_cast<size_t>(axis)] = 0;
      Value* b = body.input(random_tensor(dtype, shape, 7));
      shape[static_cast<size_t>(axis)] = 7;
      Value* c = body.input(random_tensor(dtype, shape, 8));
      body.yield({body.op(Op::concat, {a, b, c, a}, {{"axis", axis}})});
      check_body(body, 0);
    }
    BodyCase body;
    Value* x = body.input(random_tensor(dtype, {4, 5}, 9));
    Value* value = body.input(random_tensor(dtype, {}, 10));
    body.yield({body.op(Op::pad, {x, value}, {{"low", Dims{1, 2}}, {"high", Dims{3, 0}}}),
                body.op(Op::pad, {x, value}, {{"low", Dims{-1, 2}}, {"high", Dims{-2, -3}}}),
                body.op(Op::pad, {x, value}, {{"low", Dims{-4, 0}}, {"high", Dims{2, 0}}})});
    check_body(body, 0);
  }
}

TEST_CASE("iota and constants need no operands") {
  for (DType dtype : numbers) {
    INFO(to_string(dtype));
    BodyCase body;
    Value* index = body.op(Op::iota, {}, {{"shape", Dims{3, 4, 5}}, {"axis", int64_t{1}}, {"dtype", dtype}});
    Value* one = body.op(Op::constant, {}, {{"value", Tensor::scalar(dtype, 1)}});
    body.yield({body.op(Op::add, {index, one}), index, one});
    check_body(body, 0);
  }
  BodyCase body;
  body.symbols = {{"seq", 7}};
  const Dim seq = Dim::symbol("seq");
  Value* index = body.op(Op::iota, {}, {{"shape", Dims{seq, seq * 2}}, {"axis", int64_t{1}}, {"dtype", DType::i64}});
  Value* sizes = body.op(Op::dim_values, {}, {{"values", Dims{seq, seq + 1}}});
  body.yield({index, sizes, body.op(Op::reduce_sum, {sizes}, {{"axes", Integers{0}}, {"keepdims", false}})});
  check_body(body, 0);
}

TEST_CASE("gather wraps and clamps indices") {
  for (DType dtype : all_dtypes) {
    for (DType index_dtype : {DType::i64, DType::i32}) {
      for (int64_t axis : {0, 1, 2}) {
        BodyCase body;
        Value* data = body.input(random_tensor(dtype, {3, 4, 6}, 11));
        Value* indices = body.input(random_tensor(index_dtype, {2, 5}, 12, -1, 1));  // -8 to 7
        body.yield({body.op(Op::gather, {data, indices}, {{"axis", axis}})});
        check_body(body, 0);
      }
    }
  }
  BodyCase body;
  Value* data = body.input(Tensor(DType::f32, {2, 0, 3}));
  Value* indices = body.input(random_tensor(DType::i64, {4}, 12));
  body.yield({body.op(Op::gather, {data, indices}, {{"axis", int64_t{1}}})});
  check_body(body, 0);
}

TEST_CASE("gather_nd and gather_elements agree with the evaluator") {
  for (DType dtype : all_dtypes) {
    for (DType index_dtype : {DType::i64, DType::i32}) {
      BodyCase body;
      Value* data = body.input(random_tensor(dtype, {3, 4, 6}, 11));
      Value* tuples = body.input(random_tensor(index_dtype, {3, 5, 2}, 12, -1, 1));
      Value* indices = body.input(random_tensor(index_dtype, {2, 9, 6}, 13, -1, 1));
      Value* rows = body.input(random_tensor(index_dtype, {3, 1, 20}, 14, -1, 1));
      body.yield({body.op(Op::gather_nd, {data, tuples}, {{"batch_dims", int64_t{0}}}),
                  body.op(Op::gather_nd, {data, tuples}, {{"batch_dims", int64_t{1}}}),
                  body.op(Op::gather_elements, {data, indices}, {{"axis", int64_t{1}}}),
                  body.op(Op::gather_elements, {data, rows}, {{"axis", int64_t{2}}})});
      check_body(body, 0);
    }
  }
  BodyCase body;
  Value* data = body.input(Tensor(DType::f32, {2, 0}));
  Value* tuples = body.input(Tensor(DType::i64, {3, 2}));
  Value* indices = body.input(Tensor(DType::i64, {2, 3}));
  body.yield({body.op(Op::gather_nd, {data, tuples}, {{"batch_dims", int64_t{0}}}),
              body.op(Op::gather_elements, {data, indices}, {{"axis", int64_t{1}}})});
  check_body(body, 0);
}

TEST_CASE("scatters agree with the evaluator: duplicates, indices outside, every reduction") {
  for (DType dtype : all_dtypes) {
    for (DType index_dtype : {DType::i64, DType::i32}) {
      for (const char* reduction : {"none", "add", "max"}) {
        if (!number_dtype(dtype) && std::string_view(reduction) != "none") continue;
        BodyCase body;
        Value* data = body.input(random_tensor(dtype, {3, 4, 6}, 11));
        Value* tuples = body.input(random_tensor(index_dtype, {3, 5, 2}, 12, -1, 1));  // -8 to 7
        Value* rows = body.input(random_tensor(dtype, {3, 5, 6}, 13));
        Value* indices = body.input(random_tensor(index_dtype, {2, 9, 6}, 14, -1, 1));
        Value* updates = body.input(random_tensor(dtype, {2, 9, 6}, 15));
        Value* turned = body.op(Op::transpose, {data}, {{"perm", Integers{1, 0, 2}}});
        AttributeList how = {{"reduction", std::string(reduction)}}, with_axis = how;
        with_axis.set("axis", int64_t{1});
        body.yield({body.op(Op::scatter_nd, {data, tuples, rows}, how),
                    body.op(Op::scatter_nd, {turned, tuples, rows}, how),
                    body.op(Op::scatter_elements, {data, indices, updates}, with_axis)});
        check_body(body, 0);
      }
    }
  }
  BodyCase body;
  Value* data = body.input(Tensor(DType::f32, {2, 0}));
  Value* tuples = body.input(Tensor(DType::i64, {3, 2}));
  Value* updates = body.input(Tensor(DType::f32, {3}));
  body.yield({body.op(Op::scatter_nd, {data, tuples, updates})});
  check_body(body, 0);
}

TEST_CASE("running sums agree with the evaluator for every dtype and direction") {
  for (DType dtype : numbers) {
    for (int64_t axis : {0, 1, 2}) {
      for (int form = 0; form < 4; ++form) {
        check_one(random_tensor(dtype, {3, 50, 7}, 13, -1, 1), Op::cumsum,
                  {{"axis", axis}, {"exclusive", form % 2 == 1}, {"reverse", form >= 2}});
      }
    }
  }
}

TEST_CASE("reductions over any axes agree with the evaluator for every dtype") {
  const Integers axes_lists[] = {{}, {0}, {1}, {2}, {3}, {0, 1}, {2, 3}, {1, 3}, {0, 2}, {0, 1, 2, 3}};
  for (Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod}) {
    for (DType dtype : numbers) {
      for (const Integers& axes : axes_lists) {
        INFO(to_string(op), " of ", to_string(dtype), ", ", axes.size(), " axes, first ", axes.empty() ? -1 : axes[0]);
        check_one(random_tensor(dtype, {3, 4, 5, 37}, 13, -1.5, 1.5), op,
                  {{"axes", axes}, {"keepdims", axes.size() % 2 == 0}});
      }
      check_one(Tensor(dtype, {3, 0}), op, {{"axes", Integers{1}}, {"keepdims", false}});
      check_one(Tensor(dtype, {0, 3}), op, {{"axes", Integers{0}}, {"keepdims", true}});
      check_one(Tensor(dtype, {0, 3}), op, {{"axes", Integers{1}}, {"keepdims", true}});
      check_one(random_tensor(dtype, {}, 1), op, {{"axes", Integers{}}, {"keepdims", true}});
    }
  }
}

TEST_CASE("long sums stay accurate") {
  check_one(random_tensor(DType::f32, {2, 100003}, 14, 0, 1), Op::reduce_sum,
            {{"axes", Integers{1}}, {"keepdims", false}});
  check_one(random_tensor(DType::f32, {20001, 7}, 14, 0, 1), Op::reduce_mean,
            {{"axes", Integers{0}}, {"keepdims", false}});
}

TEST_CASE("argmax takes the first or last of equal elements, and NaN") {
  for (DType dtype : numbers) {
    for (int64_t axis : {0, 1, 2}) {
      for (bool last : {false, true}) {
        Tensor x = random_tensor(dtype, {4, 9, 5}, 15, -0.5, 0.5);
        if (is_float(dtype)) {
          for (int64_t i = 0; i < x.element_count(); ++i) x.set_f64(i, std::round(x.f64(i) * 4));
          x.set_f64(17, NAN);
        }
        check_one(x, Op::argmax, {{"axis", axis}, {"keepdims", last}, {"select_last", last}}, 0);
      }
    }
  }
}

TEST_CASE("softmax and log_softmax agree with the evaluator along every axis") {
  for (Op op : {Op::softmax, Op::log_softmax}) {
    for (DType dtype : floats) {
      for (int64_t axis : {0, 1, 2}) {
        INFO(to_string(op), " of ", to_string(dtype), " along ", axis);
        check_one(random_tensor(dtype, {3, 37, 130}, 16, -8, 8), op, {{"axis", axis}});
      }
      check_one(Tensor(dtype, {3, 0}), op, {{"axis", int64_t{1}}});
      check_one(Tensor(dtype, {0, 3}), op, {{"axis", int64_t{1}}});
      Tensor masked = random_tensor(dtype, {4, 20}, 17);
      for (int64_t i = 0; i < 20; ++i) masked.set_f64(i, -INFINITY);
      masked.set_f64(25, -INFINITY);
      masked.set_f64(45, INFINITY);
      masked.set_f64(65, NAN);
      check_one(masked, op, {{"axis", int64_t{1}}});
    }
  }
}

TEST_CASE("normalisations agree with the evaluator") {
  for (DType dtype : floats) {
    for (int64_t axis : {0, 1, 2}) {
      const std::vector<int64_t> shapes[] = {{61}, {7, 61}, {1}, {}, {7, 1}, {3, 7, 61}, {3, 1, 61}};
      for (const auto& shape : shapes) {
        INFO(to_string(dtype), " from axis ", axis, ", scale of rank ", shape.size());
        BodyCase body;
        Value* x = body.input(random_tensor(dtype, {3, 7, 61}, 18));
        Value* scale = body.input(random_tensor(dtype, shape, 19));
        Value* bias = body.input(random_tensor(dtype, {61}, 20));
        body.yield({body.op(Op::layer_norm, {x, scale, bias}, {{"axis", axis}, {"epsilon", 1e-5}}),
                    body.op(Op::layer_norm, {x, scale}, {{"axis", axis}, {"epsilon", 1e-12}}),
                    body.op(Op::rms_norm, {x, scale}, {{"axis", axis}, {"epsilon", 1e-6}})});
        check_body(body);
      }
    }
  }
}

TEST_CASE("the bits of a row do not depend on the other rows") {
  const Tensor many = random_tensor(DType::f32, {9, 203}, 21);
  Tensor single(DType::f32, {1, 203});
  for (int64_t row : {0, 4, 8}) {
    std::memcpy(single.bytes.data(), many.bytes.data() + row * 203 * 4, 203 * 4);
    for (Op op : {Op::softmax, Op::reduce_sum}) {
      const auto run = [&](const Tensor& x) {
        BodyCase body;
        AttributeList attributes = op == Op::softmax ? AttributeList{{"axis", int64_t{1}}}
                                                     : AttributeList{{"axes", Integers{1}}, {"keepdims", false}};
        body.yield({body.op(op, {body.input(x)}, attributes)});
        return body.run()[0];
      };
      const Tensor all = run(many), one = run(single);
      const size_t bytes = one.bytes.size();
      CHECK(std::memcmp(all.bytes.data() + static_cast<size_t>(row) * bytes, one.bytes.data(), bytes) == 0);
    }
  }
}

struct ConvCase {
  std::vector<int64_t> x, w;
  Integers strides, dilations, pads;
  int64_t groups;
};

TEST_CASE("convolutions of one, two and three axes agree with the evaluator") {
  const ConvCase cases[] = {
      {{2, 3, 50}, {4, 3, 3}, {1}, {1}, {1, 1}, 1},
      {{1, 4, 31}, {6, 2, 5}, {2}, {2}, {0, 3}, 2},
      {{2, 3, 32, 32}, {8, 3, 16, 16}, {16, 16}, {1, 1}, {0, 0, 0, 0}, 1},
      {{1, 4, 9, 11}, {4, 1, 3, 2}, {1, 2}, {1, 1}, {1, 0, 1, 2}, 4},
      {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 1}, {1, 1, 2}, {2, 1, 1}, {1, 1, 0, 0, 1, 0}, 1},
      {{0, 3, 8}, {4, 3, 3}, {1}, {1}, {1, 1}, 1},
      {{1, 1, 3}, {1, 1, 3}, {1}, {1}, {0, 0}, 1},
  };
  for (DType dtype : floats) {
    for (const ConvCase& c : cases) {
      for (bool bias : {false, true}) {
        INFO(to_string(dtype), ", ", c.x.size() - 2, " axes, ", c.groups, " groups");
        BodyCase body;
        std::vector<Value*> in = {body.input(random_tensor(dtype, c.x, 22)), body.input(random_tensor(dtype, c.w, 23))};
        if (bias) in.push_back(body.input(random_tensor(dtype, {c.w[0]}, 24)));
        body.yield(
            {body.op(Op::conv, in,
                     {{"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}, {"groups", c.groups}})});
        check_body(body);
      }
    }
  }
}

// Else the comparisons above would compare the evaluator with itself.
bool runs_on_evaluator(BodyCase& body) {
  const auto plan = must(runtime::cpu::BodyPlanner::plan(body.block, body.symbols, runtime::cpu::best_isa()));
  for (const auto& step : plan.steps) {
    if (dynamic_cast<const runtime::cpu::ReferenceStep*>(step.get())) return true;
  }
  return false;
}

TEST_CASE("the ops of transformers have loops of their own") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    BodyCase body;
    Value* x = body.input(random_tensor(dtype, {2, 3, 4}, 1));
    Value* row = body.input(random_tensor(dtype, {4}, 2));
    Value* ids = body.input(random_tensor(DType::i64, {5}, 3));
    body.yield(
        {body.op(Op::gelu, {x}), body.op(Op::softmax, {x}, {{"axis", int64_t{1}}}), body.op(Op::erf, {x}),
         body.op(Op::layer_norm, {x, row, row}, {{"axis", int64_t{2}}}), body.op(Op::pow, {x, x}),
         body.op(Op::rms_norm, {x, row}, {{"axis", int64_t{2}}}), body.op(Op::cos, {x}),
         body.op(Op::matmul, {x, x}, {{"transpose_rhs", true}}), body.op(Op::cast, {x}, {{"to", DType::i64}}),
         body.op(Op::reduce_mean, {x}, {{"axes", Integers{0, 2}}}),
         body.op(Op::gather, {row, ids}, {{"axis", int64_t{0}}}), body.op(Op::concat, {x, x}, {{"axis", int64_t{1}}}),
         body.op(Op::transpose, {x}, {{"perm", Integers{2, 1, 0}}}), body.op(Op::argmax, {x}, {{"axis", int64_t{1}}}),
         body.op(Op::less, {x, row}),
         body.op(Op::conv, {x, x}, {{"strides", Integers{1}}, {"dilations", Integers{1}}, {"pads", Integers{0, 0}}})});
    CHECK(!runs_on_evaluator(body));
  }
}

TEST_CASE("ops without loops of their own run on the evaluator") {
  BodyCase body;
  Value* x = body.input(random_tensor(DType::f32, {4, 6}, 25, 0.5, 2));
  Value* exponent = body.input(random_tensor(DType::i64, {6}, 25, 0, 0.5));
  Value* y = body.input(random_tensor(DType::u4, {5, 3}, 26));
  body.yield({body.op(Op::pow, {x, exponent}), body.op(Op::transpose, {y}, {{"perm", Integers{1, 0}}})});
  CHECK(runs_on_evaluator(body));
  check_body(body, 0);
}

TEST_CASE("a slice outside its operand under a binding is an error") {
  BodyCase body;
  Value* x = body.block.add_argument({DType::f32, {Dim::symbol("n")}});
  body.inputs.push_back(Tensor(DType::f32, {3}));
  body.yield({body.op(Op::slice, {x}, {{"starts", Dims{2}}, {"sizes", Dims{2}}, {"steps", Integers{1}}})});
  body.symbols = {{"n", 3}};
  auto plan = runtime::cpu::BodyPlanner::plan(body.block, body.symbols, runtime::cpu::best_isa());
  REQUIRE(!plan);
  CHECK(plan.error().first().id == "slice_c4");
  body.symbols = {{"n", 4}};
  CHECK(runtime::cpu::BodyPlanner::plan(body.block, body.symbols, runtime::cpu::best_isa()).ok());
}

}  // namespace
}  // namespace rtx
