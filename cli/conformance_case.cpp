#include "cli/conformance_case.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/npy.h"
#include "base/text.h"
#include "frontend/read_tensor_file.h"

namespace rtx::cli {
namespace {

namespace fs = std::filesystem;

// PREFIX_N.pb by N as a number.
std::map<int, std::string> numbered_files(const fs::path& folder, std::string_view prefix) {
  std::map<int, std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".pb")) continue;
    int number = 0;
    const char* end = name.data() + name.size() - 3;
    if (std::from_chars(name.data() + prefix.size(), end, number).ptr == end) files[number] = entry.path().string();
  }
  return files;
}

Result<std::vector<NamedTensor>> read_pb_tensors(const fs::path& folder, std::string_view prefix,
                                                 const std::vector<onnx::ValueInfo>& values) {
  std::vector<NamedTensor> tensors;
  for (const auto& [number, path] : numbered_files(folder, prefix)) {
    if (number != static_cast<int>(tensors.size()) || tensors.size() >= values.size()) {
      return make_error(ErrorKind::invalid, "E391", concat(path, " has no place in the model"));
    }
    RTX_ASSIGN(Tensor tensor, onnx::read_tensor_file(path));
    tensors.push_back({values[tensors.size()].name, std::move(tensor)});
  }
  return tensors;
}

Result<std::vector<NamedTensor>> read_npz_tensors(const std::string& path, const std::vector<onnx::ValueInfo>& values) {
  RTX_ASSIGN(auto file, File::open(path));
  RTX_ASSIGN(const auto npz, NpzFile::open(std::move(file)));
  std::vector<NamedTensor> tensors;
  for (const onnx::ValueInfo& value : values) {
    if (!npz->contains(value.name)) continue;
    RTX_ASSIGN(NpyArray array, npz->read(value.name));
    Tensor tensor;
    tensor.dtype = array.dtype;
    tensor.shape = std::move(array.shape);
    tensor.bytes = std::move(array.bytes);
    tensors.push_back({value.name, std::move(tensor)});
  }
  return tensors;
}

}  // namespace

Result<std::vector<ConformanceCase>> find_cases(const std::vector<std::string>& roots) {
  std::vector<ConformanceCase> cases;
  for (const std::string& root : roots) {
    std::error_code error;
    const fs::path base = fs::weakly_canonical(root, error);
    if (!fs::is_directory(base, error))
      return make_error(ErrorKind::io, "E901", concat("'", root, "' is not a folder"));
    std::vector<ConformanceCase> found;
    if (fs::exists(base / "model.onnx", error)) found.push_back({base.filename().string(), base.string()});
    for (const auto& entry : fs::recursive_directory_iterator(base, error)) {
      if (entry.path().filename() != "model.onnx" || entry.path().parent_path() == base) continue;
      found.push_back(
          {entry.path().parent_path().lexically_relative(base).string(), entry.path().parent_path().string()});
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    cases.insert(cases.end(), found.begin(), found.end());
  }
  return cases;
}

Result<std::vector<DataSet>> read_data_sets(const ConformanceCase& which, const onnx::Model& model) {
  std::vector<DataSet> sets;
  const onnx::Graph& graph = model.graph;
  std::error_code error;
  std::vector<fs::path> folders;
  std::vector<std::string> endings;  // ".npz", ".odd.npz"
  for (const auto& entry : fs::directory_iterator(which.path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("test_data_set_")) folders.push_back(entry.path());
    if (name.starts_with("inputs.") && name.ends_with(".npz")) endings.push_back(name.substr(6));
  }
  std::sort(folders.begin(), folders.end());
  // The recorded sizes first, then others.
  std::sort(endings.begin(), endings.end(),
            [](const auto& a, const auto& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  for (const std::string& ending : endings) {
    DataSet set;
    RTX_ASSIGN(set.inputs, read_npz_tensors(concat(which.path, "/inputs", ending), graph.inputs));
    RTX_ASSIGN(set.outputs, read_npz_tensors(concat(which.path, "/outputs", ending), graph.outputs));
    sets.push_back(std::move(set));
  }
  for (const fs::path& folder : folders) {
    DataSet set;
    RTX_ASSIGN(set.inputs, read_pb_tensors(folder, "input_", graph.inputs));
    RTX_ASSIGN(set.outputs, read_pb_tensors(folder, "output_", graph.outputs));
    sets.push_back(std::move(set));
  }
  if (sets.empty()) {
    return make_error(ErrorKind::invalid, "E391", concat("no inputs.npz and no test_data_set_* in '", which.path, "'"));
  }
  return sets;
}

runtime::Tolerance tolerance_for(const ConformanceCase& which, DType narrowest, DType output) {
  if (!is_float(output)) return {};
  std::error_code error;
  const fs::path meta = fs::path(which.path) / "meta.json";
  if (fs::exists(meta, error)) {
    const Result<std::string> text = read_text_file(meta.string(), 1 << 20);
    const auto json = nlohmann::json::parse(text ? *text : std::string(), nullptr, false);
    if (json.is_object() && json.contains("tolerance") && json["tolerance"].is_object()) {
      return {json["tolerance"].value("atol", 0.0), json["tolerance"].value("rtol", 0.0)};
    }
  }
  if (!fs::exists(fs::path(which.path) / "inputs.npz", error)) return {1e-7, output == DType::bf16 ? 8e-3 : 1e-3};
  constexpr double any = std::numeric_limits<double>::infinity();
  if (narrowest == DType::f16) return {any, 0, 5e-3};
  if (narrowest == DType::bf16 || bit_width(narrowest) <= 8) return {any, 0, 2e-2};
  return {2e-5, 0, 1e-5};
}

void bind_inputs(onnx::Model& model, const DataSet& data, const std::vector<size_t>& inputs) {
  std::vector<onnx::ValueInfo> kept;
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    if (std::find(inputs.begin(), inputs.end(), i) == inputs.end()) {
      kept.push_back(model.graph.inputs[i]);
      continue;
    }
    const Tensor& tensor = data.inputs[i].tensor;
    onnx::Initializer initializer;
    initializer.name = model.graph.inputs[i].name;
    initializer.entry.dtype = tensor.dtype;
    initializer.entry.shape = tensor.shape;
    initializer.entry.bytes = static_cast<int64_t>(tensor.bytes.size());
    initializer.entry.memory = std::make_shared<const std::vector<std::byte>>(tensor.bytes);
    model.graph.initializers.push_back(std::move(initializer));
  }
  model.graph.inputs = std::move(kept);
}

Tensor converted(const Tensor& tensor, DType dtype) {
  if (tensor.dtype == dtype || !is_float(tensor.dtype) || !is_float(dtype)) return tensor;
  Tensor result(dtype, tensor.shape);
  for (int64_t i = 0, n = tensor.element_count(); i < n; ++i) result.set_f64(i, tensor.f64(i));
  return result;
}

}  // namespace rtx::cli
