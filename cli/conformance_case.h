// A folder of rtx-conformance: a model and what it must compute.
//
//   model.onnx with inputs.npz and outputs.npz (arrays by name), and more pairs inputs.NAME.npz and outputs.NAME.npz
//   with inputs of other sizes, or
//   model.onnx with test_data_set_*/input_N.pb and output_N.pb (by position), the form of ONNX's backend tests
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/model.h"
#include "ir/tensor.h"
#include "runtime/compare.h"
#include "runtime/package/manifest.h"

namespace rtx::cli {

struct NamedTensor {
  std::string name;  // empty in .pb files without one
  Tensor tensor;
};

struct DataSet {
  std::vector<NamedTensor> inputs, outputs;
};

struct ConformanceCase {
  std::string name;  // the folder, relative to the one that was given
  std::string path;
};

// Every folder at or below `roots` that holds a model.onnx, sorted by name within each root.
Result<std::vector<ConformanceCase>> find_cases(const std::vector<std::string>& roots);

// The data sets of a case, with inputs and outputs in the order of the model's graph.
Result<std::vector<DataSet>> read_data_sets(const ConformanceCase& which, const onnx::Model& model);

// What an output may differ by: that of the folder's meta.json ({"tolerance": {"atol", "rtol"}}) if it has one; for
// .pb data the rule of ONNX's runner, rtol 1e-3 and atol 1e-7 (bf16: rtol 8e-3, one unit); for .npz data by the
// narrowest type the model computes with (`narrowest`): f32 2e-5 and norm 1e-5, f16 norm 5e-3, bf16 and 8-bit
// integers norm 2e-2. Integers are exact.
runtime::Tolerance tolerance_for(const ConformanceCase& which, DType narrowest, DType output);

// Turns inputs with these positions into initializers with the recorded values, as exported models have them.
void bind_inputs(onnx::Model& model, const DataSet& data, const std::vector<size_t>& inputs);

// A tensor as `dtype`, where both are floats; else unchanged.
Tensor converted(const Tensor& tensor, DType dtype);

}  // namespace rtx::cli
