#include "cli/constant_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/nearest_name.h"
#include "base/npy.h"
#include "base/text.h"
#include "frontend/onnx_types.h"

namespace rtx::cli {
namespace {

Diagnostic usage(std::string message) { return make_error(ErrorKind::usage, "E001", std::move(message)); }

Result<Tensor> read_array(const std::string& path, DType dtype) {
  RTX_ASSIGN(const auto file, File::open(path));
  RTX_ASSIGN(NpyArray array, read_npy(*file, dtype));
  Tensor tensor;
  tensor.dtype = array.dtype;
  tensor.shape = std::move(array.shape);
  tensor.bytes = std::move(array.bytes);
  return tensor;
}

// Stores and reads back: a value that changes is refused.
bool set(Tensor& tensor, int64_t index, std::string_view text) {
  const char* end = text.data() + text.size();
  if (is_float(tensor.dtype)) {
    double value = 0;
    const auto [at, error] = std::from_chars(text.data(), end, value);
    tensor.set_f64(index, value);
    return error == std::errc{} && at == end;
  }
  int64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end) return false;
  tensor.set_i64(index, value);
  return tensor.i64(index) == value;
}

Result<Tensor> parse_values(std::string_view text, DType dtype, size_t rank) {
  std::vector<std::string_view> values;
  for (size_t end = 0; !text.empty() && end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(',');
    values.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  const int64_t count = static_cast<int64_t>(values.size());
  if (rank > 1 || (rank == 0 && count != 1))
    return usage(concat(count, " values for a tensor of rank ", rank)).with_help("use NAME=@FILE.npy");
  Tensor tensor(dtype, rank == 0 ? std::vector<int64_t>() : std::vector<int64_t>{count});
  for (int64_t i = 0; i < count; ++i) {
    const std::string_view value = values[static_cast<size_t>(i)];
    if (!set(tensor, i, value))
      return usage(concat(quote_text(value), " is no value")).with_expected(std::string(to_string(dtype)));
  }
  return tensor;
}

Result<void> check_shape(const Tensor& tensor, const onnx::ValueInfo& input) {
  if (!input.shape) return Ok{};
  bool fits = tensor.shape.size() == input.shape->size();
  for (size_t axis = 0; fits && axis < tensor.shape.size(); ++axis) {
    const auto& declared = (*input.shape)[axis].value;
    fits = !declared || *declared == tensor.shape[axis];
  }
  if (fits) return Ok{};
  return usage("the value has another shape than the input")
      .with_expected(concat("[",
                            join(*input.shape, ", ",
                                 [](const onnx::DeclaredDim& dim) {
                                   return dim.value           ? concat(*dim.value)
                                          : dim.param.empty() ? std::string("?")
                                                              : escape_text(dim.param);
                                 }),
                            "]"))
      .with_got(tensor.type_str());
}

}  // namespace

Result<std::map<std::string, Tensor>> constants_of(const std::vector<std::string>& arguments,
                                                   const onnx::Graph& graph) {
  std::map<std::string, Tensor> constants;
  for (const std::string& argument : arguments) {
    const std::string where = concat("--constant ", escape_text(argument));
    const size_t equals = argument.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return usage(concat(where, ": no name")).with_expected("NAME=VALUE,VALUE,... or NAME=@FILE.npy");
    const std::string name = argument.substr(0, equals);
    const std::string_view text = std::string_view(argument).substr(equals + 1);
    const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                    [&](const onnx::ValueInfo& candidate) { return candidate.name == name; });
    if (input == graph.inputs.end()) {
      std::vector<std::string> names;
      for (const onnx::ValueInfo& candidate : graph.inputs) names.push_back(candidate.name);
      const std::string nearest = nearest_name(name, names);
      return usage(concat(where, ": the model has no input of this name"))
          .with_expected(
              concat("one of ", join(names, ", ", [](const std::string& known) { return quote_text(known); })))
          .with_help(nearest.empty() ? std::string() : concat("did you mean ", quote_text(nearest), "?"));
    }
    const std::optional<DType> dtype = onnx::dtype_of(input->elem_type);
    if (!dtype) return usage(concat(where, ": the input has a type that rtx does not have"));
    Result<Tensor> tensor = text.starts_with('@') ? read_array(std::string(text.substr(1)), *dtype)
                                                  : parse_values(text, *dtype, input->shape ? input->shape->size() : 1);
    if (!tensor) return std::move(tensor).error().within(where);
    if (Result<void> checked = check_shape(*tensor, *input); !checked) return std::move(checked).error().within(where);
    if (!constants.emplace(name, std::move(*tensor)).second) return usage(concat(where, ": the input is given twice"));
  }
  return constants;
}

}  // namespace rtx::cli
