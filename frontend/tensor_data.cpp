#include "frontend/tensor_data.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "frontend/external_keys.h"
#include "frontend/onnx_types.h"
#include "frontend/wire_scan.h"

namespace rtx::onnx {
namespace {

using onnx_schema::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and is used as it is");

// Tensors up to this size are read at once, which spares later reads of shapes, scalars and biases. Ranges of external
// data may be shared by any number of tensors, so that less of them goes to memory.
constexpr int64_t small_bytes = 64 << 10;
constexpr int64_t small_external_bytes = 1 << 10;
constexpr int64_t free_total_bytes = int64_t{1} << 30;
constexpr int64_t max_widened_elements = 1024;

Diagnostic invalid(std::string_view id, std::string message) {
  return make_error(ErrorKind::invalid, id, std::move(message));
}

// The fields that can hold data.
enum class Storage { none, raw, float_data, int32_data, int64_data, double_data, uint64_data, string_data, external };

std::string_view to_string(Storage storage) {
  switch (storage) {
    case Storage::none:
      return "no data";
    case Storage::raw:
      return "raw_data";
    case Storage::float_data:
      return "float_data";
    case Storage::int32_data:
      return "int32_data";
    case Storage::int64_data:
      return "int64_data";
    case Storage::double_data:
      return "double_data";
    case Storage::uint64_data:
      return "uint64_data";
    case Storage::string_data:
      return "string_data";
    case Storage::external:
      return "external_data";
  }
  return "";
}

Result<Storage> storage_of(const TensorProto& tensor) {
  const bool external = tensor.data_location() == TensorProto::EXTERNAL;
  if (!external && tensor.external_data_size() > 0)
    return invalid("E317", "external_data entries, but data_location is not EXTERNAL");
  const std::pair<bool, Storage> present[] = {
      {tensor.has_raw_data(), Storage::raw},
      {tensor.float_data_size() > 0, Storage::float_data},
      {tensor.int32_data_size() > 0, Storage::int32_data},
      {tensor.int64_data_size() > 0, Storage::int64_data},
      {tensor.double_data_size() > 0, Storage::double_data},
      {tensor.uint64_data_size() > 0, Storage::uint64_data},
      {tensor.string_data_size() > 0, Storage::string_data},
      {external, Storage::external},
  };
  Storage result = Storage::none;
  for (const auto& [is_present, storage] : present) {
    if (!is_present) continue;
    if (result != Storage::none)
      return invalid("E304", concat("both ", to_string(result), " and ", to_string(storage), " hold data"));
    result = storage;
  }
  return result;
}

// The typed field that the specification assigns to an element type.
Storage typed_storage(int32_t type) {
  switch (type) {
    case TensorProto::FLOAT:
    case TensorProto::COMPLEX64:
      return Storage::float_data;
    case TensorProto::DOUBLE:
    case TensorProto::COMPLEX128:
      return Storage::double_data;
    case TensorProto::INT64:
      return Storage::int64_data;
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return Storage::uint64_data;
    case TensorProto::STRING:
      return Storage::string_data;
    default:
      return Storage::int32_data;
  }
}

Diagnostic size_error(const OnnxType& type, const std::vector<int64_t>& shape, std::string_view unit, int64_t expected,
                      int64_t got, Storage storage) {
  return invalid("E303", concat("wrong size of ", to_string(storage)))
      .with_expected(concat(expected, " ", unit, " for ", type.name, shape_text(shape)))
      .with_got(concat(got, " ", unit));
}

// Bytes that must have certain values: bool is 0 or 1, and nothing stands beyond the last 4-bit element. Other bytes
// would mean different things to different kernels.
Result<void> check_bytes(const File& file, const FileRange& range, DType dtype, int64_t elements) {
  if (bit_width(dtype) == 4 && elements % 2 == 1) {
    std::byte last;
    RTX_TRY(file.read(range.offset + range.bytes - 1, std::span(&last, 1)));
    if ((last & std::byte{0xf0}) != std::byte{0})
      return invalid("E305", "the unused high nibble of the last byte of raw_data is not zero");
  }
  if (dtype != DType::boolean) return Ok{};
  std::vector<std::byte> piece(static_cast<size_t>(std::min<int64_t>(range.bytes, 1 << 20)));
  for (int64_t done = 0; done < range.bytes;) {
    const auto part = std::span(piece).first(static_cast<size_t>(std::min<int64_t>(range.bytes - done, 1 << 20)));
    RTX_TRY(file.read(range.offset + done, part));
    const auto bad = std::find_if(part.begin(), part.end(), [](std::byte b) { return b > std::byte{1}; });
    if (bad != part.end())
      return invalid(
          "E305", concat("bool element ", done + (bad - part.begin()), " is ", static_cast<int>(*bad), ", not 0 or 1"));
    done += static_cast<int64_t>(part.size());
  }
  return Ok{};
}

// Data as it lies in a file, already of the right length.
Result<WeightEntry> from_file(std::shared_ptr<const File> file, const FileRange& range, DType dtype,
                              std::vector<int64_t> shape, int64_t elements, int64_t max_memory_bytes) {
  RTX_TRY(check_bytes(*file, range, dtype, elements));
  if (range.bytes <= max_memory_bytes) {
    std::vector<std::byte> bytes(static_cast<size_t>(range.bytes));
    if (!bytes.empty()) RTX_TRY(file->read(range.offset, bytes));
    return in_memory(dtype, std::move(shape), std::move(bytes));
  }
  WeightEntry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  entry.bytes = range.bytes;
  entry.file = std::move(file);
  entry.offset = range.offset;
  return entry;
}

template <typename T, typename Values>
std::vector<std::byte> copy_values(const Values& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(values.size()) * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// int32_data holds the small types, one entry an element (4-bit types: an entry is a byte of two elements).
Result<std::vector<std::byte>> narrow_int32_data(const TensorProto& tensor, const OnnxType& type) {
  // A 4-bit entry is a byte of two elements, which some writers sign-extend.
  struct Range {
    int32_t low, high;
  } range{};
  switch (type.number) {
    case TensorProto::INT32:
      return copy_values<int32_t>(tensor.int32_data());
    case TensorProto::INT16:
      range = {INT16_MIN, INT16_MAX};
      break;
    case TensorProto::INT8:
      range = {INT8_MIN, INT8_MAX};
      break;
    case TensorProto::BOOL:
      range = {0, 1};
      break;
    case TensorProto::INT4:
      range = {INT8_MIN, UINT8_MAX};
      break;
    default:
      range = type.bits == 16 ? Range{0, UINT16_MAX} : Range{0, UINT8_MAX};
      break;
  }
  const int width = type.bits == 16 ? 2 : 1;
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.int32_data_size()) * static_cast<size_t>(width));
  for (int i = 0; i < tensor.int32_data_size(); ++i) {
    const int32_t value = tensor.int32_data(i);
    if (value < range.low || value > range.high)
      return invalid("E305", concat("int32_data[", i, "] is out of range for ", type.name))
          .with_expected(concat(range.low, " to ", range.high))
          .with_got(std::to_string(value));
    std::memcpy(bytes.data() + static_cast<size_t>(i) * static_cast<size_t>(width), &value, static_cast<size_t>(width));
  }
  return bytes;
}

struct Located {
  std::shared_ptr<const File> file;
  FileRange range;
};

Result<Located> locate_external(const TensorProto& tensor, int64_t bytes, TensorSource& source) {
  RTX_ASSIGN(const ExternalKeys keys, external_keys(tensor));
  const int64_t length = keys.length.value_or(bytes);
  RTX_ASSIGN(std::shared_ptr<const File> file, source.external.open(keys.location));
  if (keys.offset > file->size() || length > file->size() - keys.offset)
    return invalid("E316", concat("external data runs past the end of '", escape_text(keys.location), "'"))
        .with_expected(concat("offset + length at most ", file->size(), " bytes"))
        .with_got(concat("offset ", keys.offset, ", length ", length));
  return Located{std::move(file), {keys.offset, length}};
}

// Data of a type that the IR does not have, widened where that loses nothing; an entry without data otherwise.
Result<WeightEntry> widened(std::vector<std::byte> bytes, const OnnxType& type, std::vector<int64_t> shape,
                            int64_t elements) {
  std::vector<std::byte> wide(static_cast<size_t>(elements) * sizeof(int64_t));
  const size_t width = static_cast<size_t>(type.bits) / 8;
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + static_cast<size_t>(i) * width, width);
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      WeightEntry entry;
      entry.shape = std::move(shape);
      return entry;
    }
    std::memcpy(wide.data() + static_cast<size_t>(i) * sizeof(int64_t), &value, sizeof value);
  }
  return in_memory(DType::i64, std::move(shape), std::move(wide));
}

bool can_widen(const OnnxType& type, int64_t elements) {
  const bool is_unsigned =
      type.number == TensorProto::UINT16 || type.number == TensorProto::UINT32 || type.number == TensorProto::UINT64;
  return is_unsigned && elements <= max_widened_elements;
}

Result<WeightEntry> typed_entry(TensorProto& tensor, const OnnxType& type, std::vector<int64_t> shape, int64_t elements,
                                Storage storage) {
  if (storage != typed_storage(type.number))
    return invalid("E304", concat("elements of type ", type.name, " are stored in ", to_string(storage)))
        .with_expected(concat("raw_data or ", to_string(typed_storage(type.number))));
  const bool is_complex = type.number == TensorProto::COMPLEX64 || type.number == TensorProto::COMPLEX128;
  int64_t expected = is_complex ? 2 * elements : elements;
  if (storage == Storage::int32_data && (type.bits == 4 || type.bits == 2)) expected = (elements * type.bits + 7) / 8;
  int64_t got = 0;
  switch (storage) {
    case Storage::float_data:
      got = tensor.float_data_size();
      break;
    case Storage::int32_data:
      got = tensor.int32_data_size();
      break;
    case Storage::int64_data:
      got = tensor.int64_data_size();
      break;
    case Storage::double_data:
      got = tensor.double_data_size();
      break;
    case Storage::uint64_data:
      got = tensor.uint64_data_size();
      break;
    case Storage::string_data:
      got = tensor.string_data_size();
      break;
    default:
      break;
  }
  const bool size_is_known = type.bits != 0 || type.number == TensorProto::STRING;
  if (size_is_known && got != expected) return size_error(type, shape, "elements", expected, got, storage);

  std::vector<std::byte> bytes;
  switch (storage) {
    case Storage::float_data:
      bytes = copy_values<float>(tensor.float_data());
      google::protobuf::RepeatedField<float>().Swap(tensor.mutable_float_data());
      break;
    case Storage::double_data:
      bytes = copy_values<double>(tensor.double_data());
      break;
    case Storage::int64_data:
      bytes = copy_values<int64_t>(tensor.int64_data());
      google::protobuf::RepeatedField<int64_t>().Swap(tensor.mutable_int64_data());
      break;
    case Storage::uint64_data:
      if (type.bits == 32) {
        std::vector<uint32_t> narrow;
        for (uint64_t value : tensor.uint64_data()) {
          if (value > UINT32_MAX) return invalid("E305", concat("uint64_data: ", value, " does not fit uint32"));
          narrow.push_back(static_cast<uint32_t>(value));
        }
        bytes = copy_values<uint32_t>(narrow);
      } else {
        bytes = copy_values<uint64_t>(tensor.uint64_data());
      }
      break;
    case Storage::int32_data: {
      RTX_ASSIGN(bytes, narrow_int32_data(tensor, type));
      google::protobuf::RepeatedField<int32_t>().Swap(tensor.mutable_int32_data());
      break;
    }
    default:
      break;
  }
  if (type.dtype) {
    if (bit_width(*type.dtype) == 4 && elements % 2 == 1 && (bytes.back() & std::byte{0xf0}) != std::byte{0})
      return invalid("E305", "the unused high nibble of the last entry of int32_data is not zero");
    return in_memory(*type.dtype, std::move(shape), std::move(bytes));
  }
  if (can_widen(type, elements)) return widened(std::move(bytes), type, std::move(shape), elements);
  WeightEntry entry;
  entry.shape = std::move(shape);
  return entry;
}

// Reads the shape and everything but the data.
Result<const OnnxType*> type_of(const TensorProto& tensor) {
  if (tensor.has_segment())
    return invalid("E304", "the tensor is a segment of a larger one, which ONNX readers refuse");
  const OnnxType* type = find_onnx_type(tensor.data_type());
  if (!type)
    return invalid("E305", tensor.has_data_type() ? concat("data type ", tensor.data_type(), " is not defined")
                                                  : std::string("the data type is missing"));
  return type;
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  return concat("[", join(shape, ", ", [](int64_t dim) { return dim; }), "]");
}

WeightEntry in_memory(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  WeightEntry entry;
  entry.dtype = dtype;
  entry.shape = std::move(shape);
  entry.bytes = static_cast<int64_t>(bytes.size());
  entry.memory = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return entry;
}

Result<int64_t> checked_element_count(const std::vector<int64_t>& shape, int bits, const ReadLimits& limits) {
  if (static_cast<int64_t>(shape.size()) > limits.max_rank)
    return make_error(ErrorKind::limit, "E504", "the rank of a tensor is too large")
        .with_expected(concat("at most ", limits.max_rank, " axes"))
        .with_got(concat(shape.size(), " axes"))
        .with_help("raise the limit with --max-rank");
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) return invalid("E301", concat("negative dim in ", shape_text(shape)));
    if (dim > limits.max_dim)
      return make_error(ErrorKind::limit, "E504", concat("dim too large in ", shape_text(shape)))
          .with_expected(concat("at most ", limits.max_dim))
          .with_help("raise the limit with --max-dim");
    empty |= dim == 0;
  }
  if (empty) return int64_t{0};
  int64_t elements = 1, total_bits = 0;
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(elements, dim, &elements))
      return invalid("E302", concat("the element count of ", shape_text(shape), " overflows 64 bits"));
  if (__builtin_mul_overflow(elements, std::max(bits, 1), &total_bits))
    return invalid("E302", concat("the size in bytes of ", shape_text(shape), " overflows 64 bits"));
  if (total_bits / 8 > limits.max_tensor_bytes)
    return make_error(ErrorKind::limit, "E504", concat("a tensor of shape ", shape_text(shape), " is too large"))
        .with_expected(concat("at most ", limits.max_tensor_bytes, " bytes"))
        .with_got(concat(total_bits / 8, " bytes"))
        .with_help("raise the limit with --max-tensor-bytes");
  return elements;
}

Result<void> check_total_bytes(const TensorSource& source) {
  const int64_t stored = source.model_file->size() + source.external.total_bytes();
  int64_t limit = 0;
  if (__builtin_mul_overflow(stored, source.limits.max_sharing, &limit) ||
      __builtin_add_overflow(limit, free_total_bytes, &limit) || source.total_bytes <= limit)
    return Ok{};
  return make_error(ErrorKind::limit, "E504", "the tensors are much larger than the data they share")
      .with_expected(concat("at most ", limit, " bytes"))
      .with_got(concat(source.total_bytes, " bytes, of which ", stored, " are stored"))
      .with_help("raise the limit with --max-sharing");
}

Result<ReadTensor> read_tensor(TensorProto& tensor, TensorSource& source) {
  RTX_ASSIGN(const OnnxType* type, type_of(tensor));
  std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  RTX_ASSIGN(const int64_t elements, checked_element_count(shape, type->bits, source.limits));
  RTX_ASSIGN(const Storage storage, storage_of(tensor));

  ReadTensor result;
  result.onnx_type = type->number;
  if (__builtin_add_overflow(source.total_bytes, (elements * type->bits + 7) / 8, &source.total_bytes))
    source.total_bytes = std::numeric_limits<int64_t>::max();
  if (!type->dtype) result.unsupported = type->name;
  if (storage != Storage::none && storage != Storage::raw && storage != Storage::external) {
    RTX_ASSIGN(result.entry, typed_entry(tensor, *type, std::move(shape), elements, storage));
    return result;
  }

  const int64_t bytes = (elements * type->bits + 7) / 8;
  Located data{source.model_file, {}};
  if (storage == Storage::external) {
    if (type->number == TensorProto::STRING) return invalid("E304", "strings cannot be stored as external data");
    RTX_ASSIGN(data, locate_external(tensor, bytes, source));
  } else if (storage == Storage::raw) {
    if (type->number == TensorProto::STRING) return invalid("E304", "strings cannot be stored in raw_data");
    data.range = scanned_raw_data(tensor.raw_data());
  }
  if (type->bits != 0 && data.range.bytes != bytes)
    return size_error(*type, shape, "bytes", bytes, data.range.bytes, storage);
  if (type->number == TensorProto::STRING && elements != 0)
    return size_error(*type, shape, "elements", elements, 0, Storage::string_data);

  if (type->dtype) {
    RTX_ASSIGN(result.entry, from_file(std::move(data.file), data.range, *type->dtype, std::move(shape), elements,
                                       storage == Storage::raw ? small_bytes : small_external_bytes));
  } else if (can_widen(*type, elements)) {
    std::vector<std::byte> narrow(static_cast<size_t>(bytes));
    if (!narrow.empty()) RTX_TRY(data.file->read(data.range.offset, narrow));
    RTX_ASSIGN(result.entry, widened(std::move(narrow), *type, std::move(shape), elements));
  } else {
    result.entry.shape = std::move(shape);
  }
  return result;
}

}  // namespace rtx::onnx
