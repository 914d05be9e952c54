#include "frontend/tensor_data.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "frontend/external_keys.h"
#include "frontend/onnx_types.h"
#include "frontend/typed_data.h"
#include "frontend/wire_scan.h"

namespace rtx::onnx {
namespace {

using onnx_schema::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian and is used as it is");

// Tensors up to this size are read at once, which spares later reads of shapes, scalars and biases. Ranges of external
// data may be shared by any number of tensors, and typed data may be smaller in the file, so that less of them goes to
// memory.
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

Storage storage_of_field(int64_t number) {
  switch (number) {
    case TensorProto::kFloatDataFieldNumber:
      return Storage::float_data;
    case TensorProto::kInt32DataFieldNumber:
      return Storage::int32_data;
    case TensorProto::kInt64DataFieldNumber:
      return Storage::int64_data;
    case TensorProto::kDoubleDataFieldNumber:
      return Storage::double_data;
    case TensorProto::kUint64DataFieldNumber:
      return Storage::uint64_data;
    default:
      return Storage::raw;
  }
}

struct Stored {
  Storage storage = Storage::none;
  ScannedData data;  // unless it is string_data or external
};

Result<Stored> find_data(const TensorProto& tensor) {
  const bool external = tensor.data_location() == TensorProto::EXTERNAL;
  if (!external && tensor.external_data_size() > 0)
    return invalid("E317", "external_data entries, but data_location is not EXTERNAL");
  std::vector<Stored> present;
  for (const ScannedData& data : scanned_data(tensor.raw_data()))
    present.push_back({storage_of_field(data.field), data});
  if (tensor.string_data_size() > 0) present.push_back({Storage::string_data, {}});
  if (external) present.push_back({Storage::external, {}});
  std::sort(present.begin(), present.end(), [](const Stored& a, const Stored& b) { return a.storage < b.storage; });
  if (present.size() > 1)
    return invalid(
        "E304", concat("both ", to_string(present[0].storage), " and ", to_string(present[1].storage), " hold data"));
  return present.empty() ? Stored() : present[0];
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
Result<void> check_bytes(const RangeSource& file, const FileRange& range, DType dtype, int64_t elements) {
  if (bit_width(dtype) == 4 && elements % 2 == 1) {
    std::byte last;
    RTX_TRY(file.read(range.offset + range.bytes - 1, std::span(&last, 1)));
    if ((last & std::byte{0xf0}) != std::byte{0})
      return invalid("E305", "the unused high nibble of the last byte is not zero");
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

// Data of the right length that stays where it is, unless it has few bytes.
Result<WeightEntry> from_file(std::shared_ptr<const RangeSource> file, const FileRange& range, DType dtype,
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

// What the numbers of a typed field must be for elements of a type. int32_data holds the small types, one entry an
// element (4-bit types: an entry is a byte of two elements, which some writers sign-extend).
TypedElement typed_element(Storage storage, const OnnxType& type) {
  switch (storage) {
    case Storage::float_data:
      return {.kind = FieldKind::fixed32, .width = 4};
    case Storage::double_data:
      return {.kind = FieldKind::fixed64, .width = 8};
    case Storage::uint64_data:
      if (type.bits == 32) return {.width = 4, .lowest = 0, .highest = UINT32_MAX};
      return {.width = 8};
    case Storage::int32_data:
      break;
    default:
      return {.width = 8};
  }
  TypedElement element{.width = type.bits == 16 ? 2 : 1, .is_int32 = true};
  switch (type.number) {
    case TensorProto::INT32:
      element.width = 4;
      break;
    case TensorProto::INT16:
      element.lowest = INT16_MIN, element.highest = INT16_MAX;
      break;
    case TensorProto::INT8:
      element.lowest = INT8_MIN, element.highest = INT8_MAX;
      break;
    case TensorProto::BOOL:
      element.lowest = 0, element.highest = 1;
      break;
    case TensorProto::INT4:
      element.lowest = INT8_MIN, element.highest = UINT8_MAX;
      break;
    default:
      element.lowest = 0, element.highest = type.bits == 16 ? UINT16_MAX : UINT8_MAX;
      break;
  }
  return element;
}

struct Located {
  std::shared_ptr<const RangeSource> file;
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

// Data in a typed field: where it can be read as bytes.
Result<Located> locate_typed(const Stored& stored, const OnnxType& type, const std::vector<int64_t>& shape,
                             int64_t elements, const TensorSource& source) {
  if (stored.storage != typed_storage(type.number))
    return invalid("E304", concat("elements of type ", type.name, " are stored in ", to_string(stored.storage)))
        .with_expected(concat("raw_data or ", to_string(typed_storage(type.number))));
  const bool is_complex = type.number == TensorProto::COMPLEX64 || type.number == TensorProto::COMPLEX128;
  int64_t expected = is_complex ? 2 * elements : elements;
  if (type.bits == 4 || type.bits == 2) expected = (elements * type.bits + 7) / 8;
  const ScannedData& data = stored.data;
  if (type.bits != 0 && data.elements != expected)
    return size_error(type, shape, "elements", expected, data.elements, stored.storage);
  const TypedElement element = typed_element(stored.storage, type);
  Result<std::shared_ptr<const TypedData>> typed = TypedData::open(source.model_file, data, element);
  if (!typed) {
    Error error = std::move(typed).error();
    Diagnostic& first = error.diagnostics.front();
    if (first.id == "E305") first.message = concat(to_string(stored.storage), first.message, " for ", type.name);
    return error;
  }
  const int64_t bytes = data.elements * element.width;
  if (const std::optional<int64_t> offset = (*typed)->file_offset())
    return Located{source.model_file, {*offset, bytes}};
  return Located{std::move(typed).value(), {0, bytes}};
}

Result<void> check_strings(const TensorProto& tensor, const OnnxType& type, const std::vector<int64_t>& shape,
                           int64_t elements) {
  if (type.number != TensorProto::STRING)
    return invalid("E304", concat("elements of type ", type.name, " are stored in string_data"))
        .with_expected(concat("raw_data or ", to_string(typed_storage(type.number))));
  if (tensor.string_data_size() != elements)
    return size_error(type, shape, "elements", elements, tensor.string_data_size(), Storage::string_data);
  return Ok{};
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

Result<ReadTensor> read_tensor(const TensorProto& tensor, TensorSource& source) {
  RTX_ASSIGN(const OnnxType* type, type_of(tensor));
  std::vector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  RTX_ASSIGN(const int64_t elements, checked_element_count(shape, type->bits, source.limits));
  RTX_ASSIGN(const Stored stored, find_data(tensor));
  const Storage storage = stored.storage;

  ReadTensor result;
  result.onnx_type = type->number;
  if (!type->dtype) result.unsupported = type->name;
  const bool is_typed = storage != Storage::none && storage != Storage::raw && storage != Storage::external;
  const int64_t bytes = (elements * type->bits + 7) / 8;
  // The data of typed fields is nobody else's.
  if (!is_typed && __builtin_add_overflow(source.total_bytes, bytes, &source.total_bytes))
    source.total_bytes = std::numeric_limits<int64_t>::max();

  if (type->number == TensorProto::STRING) {
    if (storage == Storage::external) return invalid("E304", "strings cannot be stored as external data");
    if (storage == Storage::raw) return invalid("E304", "strings cannot be stored in raw_data");
  }
  Located data{source.model_file, {}};
  if (storage == Storage::external) {
    RTX_ASSIGN(data, locate_external(tensor, bytes, source));
  } else if (storage == Storage::raw) {
    data.range = stored.data.range;
  } else if (storage == Storage::string_data) {
    RTX_TRY(check_strings(tensor, *type, shape, elements));
    result.entry.shape = std::move(shape);
    return result;
  } else if (is_typed) {
    RTX_ASSIGN(data, locate_typed(stored, *type, shape, elements, source));
  }
  if (type->bits != 0 && data.range.bytes != bytes)
    return size_error(*type, shape, "bytes", bytes, data.range.bytes, storage);
  if (type->number == TensorProto::STRING && elements != 0)
    return size_error(*type, shape, "elements", elements, 0, Storage::string_data);

  if (type->dtype) {
    const bool lies_as_it_is = !is_typed && storage != Storage::external;
    RTX_ASSIGN(result.entry, from_file(std::move(data.file), data.range, *type->dtype, std::move(shape), elements,
                                       lies_as_it_is ? small_bytes : small_external_bytes));
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
