// Operations that hold or name things.

#include "base/text.h"
#include "ir/evaluate.h"
#include "ir/ops/loops.h"
#include "ir/ops/records.h"
#include "ir/ops/rules.h"
#include "ir/weights.h"

namespace rtx {
namespace {

Result<std::vector<Type>> infer_constant(const InferContext& context) {
  const Tensor& value = context.attributes.tensor("value");
  return std::vector<Type>{{value.dtype, Shape(value.shape.begin(), value.shape.end())}};
}

Result<std::vector<Tensor>> evaluate_constant(const EvaluateContext& context) {
  return one(context.attributes.tensor("value"));
}

// weight_c1: every axis is a constant, not negative.
Result<std::vector<Type>> infer_weight(const InferContext& context) {
  const Shape& shape = context.attributes.dims("shape");
  for (const Dim& dim : shape) {
    if (!dim.is_constant() || dim.constant() < 0) {
      return rule_error(context, "weight_c1",
                        concat("the shape of weight \"", context.attributes.string("name"), "\" is not constant"),
                        "constant axes, 0 or more")
          .with_got(to_string(shape));
    }
  }
  return std::vector<Type>{{context.attributes.dtype("dtype"), shape}};
}

Result<std::vector<Tensor>> evaluate_weight(const EvaluateContext& context) {
  const std::string& name = context.attributes.string("name");
  if (!context.weights) {
    return make_error(ErrorKind::invalid, "E620", concat("no data for weight \"", escape_text(name), "\""))
        .with_help("open the .safetensors file that belongs to the module");
  }
  RTX_ASSIGN(Tensor tensor, context.weights->load(name));
  if (tensor.dtype != context.results[0].dtype || tensor.shape != context.results[0].shape) {
    return make_error(ErrorKind::invalid, "E620",
                      concat("weight \"", escape_text(name), "\" has another type in its file"))
        .with_expected(context.results[0].type_str())
        .with_got(tensor.type_str());
  }
  return one(std::move(tensor));
}

Result<std::vector<Type>> infer_dim_values(const InferContext& context) {
  return std::vector<Type>{{DType::i64, {static_cast<int64_t>(context.attributes.dims("values").size())}}};
}

Result<std::vector<Tensor>> evaluate_dim_values(const EvaluateContext& context) {
  Tensor out = context.results[0];
  int64_t i = 0;
  for (const Dim& dim : context.attributes.dims("values")) {
    RTX_ASSIGN(int64_t value, dim.evaluate(context.symbols));
    out.set_i64(i++, value);
  }
  return one(std::move(out));
}

}  // namespace

constinit const OpSpec op_constant = {
    .name = "constant",
    .family = OpFamily::structure,
    .summary = "A small tensor that is written out in the text.",
    .attributes = {{{"value", AttrKind::tensor}}},
    .infer = infer_constant,
    .evaluate = evaluate_constant,
};

// weight_c1
constinit const OpSpec op_weight = {
    .name = "weight",
    .family = OpFamily::structure,
    .summary = "A tensor of the weights file, by name.",
    .attributes = {{{"name", AttrKind::string}, {"dtype", AttrKind::dtype}, {"shape", AttrKind::dims}}},
    .traits = trait_no_fold,
    .infer = infer_weight,
    .evaluate = evaluate_weight,
};

constinit const OpSpec op_dim_values = {
    .name = "dim_values",
    .family = OpFamily::structure,
    .summary = "An i64 vector whose elements are dim expressions.",
    .attributes = {{{"values", AttrKind::dims}}},
    .infer = infer_dim_values,
    .evaluate = evaluate_dim_values,
};

// The verifier compares the result types with the operands of the body's yield; the evaluator runs the body.
constinit const OpSpec op_fusion = {
    .name = "fusion",
    .family = OpFamily::structure,
    .summary = "Operations that become one kernel: the body computes the results from the operands.",
    .operands = {{{"inputs", any_dtype, true}}},
    .attributes = {{{"kind", AttrKind::string}}},
    .traits = trait_variadic | trait_has_body | trait_no_fold,
};

constinit const OpSpec op_yield = {
    .name = "yield",
    .family = OpFamily::structure,
    .summary = "Ends a block and gives its results.",
    .operands = {{{"values", any_dtype}}},
    .traits = trait_variadic | trait_no_fold,
};

}  // namespace rtx
