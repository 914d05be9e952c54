#include "runtime/tensor_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/sha256.h"

namespace rtx::runtime {

namespace {

std::optional<int64_t> parse_integer(std::string_view text) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Stores one element; false if the text is no value of the type.
bool store_text(DType dtype, std::byte* data, int64_t index, std::string_view text) {
  if (is_float(dtype)) {
    const std::optional<double> value = parse_number(text);
    if (value) store_f64(dtype, data, index, *value);
    return value.has_value();
  }
  const std::optional<int64_t> value = parse_integer(text);
  if (!value) return false;
  store_i64(dtype, data, index, *value);
  return load_i64(dtype, data, index) == *value;
}

// Six significant digits are enough to recognise a value; files hold all of them.
std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

int64_t element_count(const HostTensor& tensor) {
  int64_t count = 1;
  for (int64_t size : tensor.shape) count *= size;
  return count;
}

std::string element_text(const HostTensor& tensor, int64_t index) {
  if (!is_float(tensor.dtype)) return std::to_string(load_i64(tensor.dtype, tensor.bytes.data(), index));
  return number_text(load_f64(tensor.dtype, tensor.bytes.data(), index));
}

}  // namespace

std::optional<TensorTypeText> parse_tensor_type(std::string_view text) {
  TensorTypeText type;
  for (size_t x = text.find('x'); x != std::string_view::npos; x = text.find('x')) {
    const std::optional<int64_t> size = parse_integer(text.substr(0, x));
    if (!size || *size < 0) return std::nullopt;
    type.shape.push_back(*size);
    text.remove_prefix(x + 1);
  }
  const std::optional<DType> dtype = parse_dtype(text);
  if (!dtype) return std::nullopt;
  type.dtype = *dtype;
  return type;
}

Result<HostTensor> parse_elements(const TensorTypeText& type, std::string_view text) {
  HostTensor tensor{.dtype = type.dtype, .shape = type.shape, .bytes = {}};
  RTX_ASSIGN(const int64_t bytes, tensor_bytes(type.dtype, type.shape));
  tensor.bytes.resize(static_cast<size_t>(bytes));
  const int64_t count = element_count(tensor);
  const int64_t given = trim(text).empty() ? 0 : 1 + std::count(text.begin(), text.end(), ',');
  if (given != count && given != 1)
    return make_error(ErrorKind::usage, "E007", "wrong number of elements")
        .with_expected(concat(count, " for ", type_text(type.dtype, type.shape), ", or one for all"))
        .with_got(concat(given));
  for (int64_t i = 0; i < count; ++i) {
    const size_t comma = given == 1 ? std::string_view::npos : text.find(',');
    const std::string_view element = trim(text.substr(0, comma));
    if (!store_text(type.dtype, tensor.bytes.data(), i, element))
      return make_error(ErrorKind::usage, "E007", concat("'", escape_text(element), "' is no ", to_string(type.dtype)));
    if (comma != std::string_view::npos) text.remove_prefix(comma + 1);
  }
  return tensor;
}

std::string summary(const HostTensor& tensor, int64_t shown) {
  std::string text = type_text(tensor.dtype, tensor.shape);
  const int64_t count = element_count(tensor);
  if (count == 0) return text + ": no elements";
  if (count > 1) {
    double low = 0, high = 0, sum = 0;
    int64_t numbers = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double value = load_f64(tensor.dtype, tensor.bytes.data(), i);
      if (std::isnan(value)) continue;
      low = numbers ? std::min(low, value) : value;
      high = numbers ? std::max(high, value) : value;
      sum += value;
      ++numbers;
    }
    if (numbers)
      text += concat(": min ", number_text(low), ", max ", number_text(high), ", mean ",
                     number_text(sum / static_cast<double>(numbers)));
    if (numbers < count) text += concat(numbers ? ", " : ": ", count - numbers, " nan");
  }
  text += count > 1 ? ";" : ":";
  for (int64_t i = 0; i < std::min(count, shown); ++i) text += concat(" ", element_text(tensor, i));
  return count > shown ? text + " ..." : text;
}

std::string hash_tensors(std::span<const HostTensor> tensors) {
  Sha256 hash;
  for (const HostTensor& tensor : tensors) {
    hash.update(concat(type_text(tensor.dtype, tensor.shape), "\n"));
    hash.update(std::span<const std::byte>(tensor.bytes));
  }
  return hash.finish_hex();
}

}  // namespace rtx::runtime
