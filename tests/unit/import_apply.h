// Importing and evaluating a model of one node, for the tests of operators.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "frontend/onnx_types.h"
#include "tests/unit/import_model.h"

namespace rtx::onnx {

inline constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

inline std::vector<Tensor> run(const ModelText& text, std::vector<Tensor> inputs) {
  auto result = text.import();
  REQUIRE_MESSAGE(result.ok(), describe(result.error()));
  auto values = evaluate(*result->module->functions[0], std::move(inputs), *result->module->weights);
  REQUIRE_MESSAGE(values.ok(), describe(values.error()));
  return std::move(values).value();
}

inline int32_t onnx_type(DType dtype) {
  int32_t number = 1;
  while (dtype_of(number) != dtype) ++number;
  return number;
}

// One node on the given inputs; output 0 unless more are named.
inline std::vector<Tensor> apply(int64_t opset, const char* op, std::vector<Tensor> inputs,
                                 std::vector<Attribute> attributes = {}, std::vector<std::string> outputs = {"y"},
                                 const char* domain = "") {
  ModelText text(opset);
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = "x" + std::to_string(i);
    ValueInfo info = ModelText::value(name, onnx_type(inputs[i].dtype), {});
    for (int64_t size : inputs[i].shape) {
      DeclaredDim dim;
      dim.value = size;
      info.shape->push_back(dim);
    }
    text.model.graph.inputs.push_back(info);
    names.push_back(name);
  }
  text.node(op, names, outputs, std::move(attributes), domain);
  for (const std::string& name : outputs)
    if (!name.empty()) text.output(name);
  return run(text, std::move(inputs));
}

inline std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.element_count(); ++i) result.push_back(tensor.f64(i));
  return result;
}

inline void check_close(const Tensor& got, const std::vector<double>& expected) {
  REQUIRE(got.element_count() == static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    if (std::isnan(expected[i]))
      CHECK(std::isnan(got.f64(i)));
    else if (std::isinf(expected[i]))
      CHECK(got.f64(i) == expected[i]);
    else
      CHECK(got.f64(i) == doctest::Approx(expected[i]).epsilon(1e-6));
  }
}

using Doubles = std::vector<double>;

}  // namespace rtx::onnx
