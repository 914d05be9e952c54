#include "base/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/npy_stream.h"
#include "base/text.h"

namespace rtx {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t largest_header = size_t{1} << 20;
constexpr size_t header_alignment = 64;
constexpr int largest_rank = 64;  // numpy's own limit

struct NumpyType {
  std::string_view code;  // without the byte order
  DType dtype;
};
constexpr std::array<NumpyType, 9> numpy_types = {{{"f8", DType::f64},
                                                   {"f4", DType::f32},
                                                   {"f2", DType::f16},
                                                   {"i8", DType::i64},
                                                   {"i4", DType::i32},
                                                   {"i2", DType::i16},
                                                   {"i1", DType::i8},
                                                   {"u1", DType::u8},
                                                   {"b1", DType::boolean}}};

Diagnostic malformed(std::string message) { return make_error(ErrorKind::invalid, "E641", std::move(message)); }

std::optional<DType> native_type(std::string_view code) {
  for (const NumpyType& type : numpy_types) {
    if (type.code == code) return type.dtype;
  }
  return std::nullopt;
}

// Whether elements of numpy's type `code` can be the bits of `dtype`, which numpy lacks.
bool can_hold(std::string_view code, DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return code == "V2" || code == "u2";
    case DType::f8e4m3:
    case DType::f8e5m2:
      return code == "V1" || code == "f1" || code == "u1";
    case DType::u4:
      return code == "V1" || code == "u1";
    case DType::i4:
      return code == "V1" || code == "i1";
    default:
      return false;
  }
}

std::string_view numpy_name(std::string_view code) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 13> names = {{{"u2", "uint16"},
                                                                                    {"u4", "uint32"},
                                                                                    {"u8", "uint64"},
                                                                                    {"c8", "complex64"},
                                                                                    {"c16", "complex128"},
                                                                                    {"f16", "longdouble"},
                                                                                    {"V1", "raw 1-byte elements"},
                                                                                    {"f1", "raw 1-byte elements"},
                                                                                    {"V2", "raw 2-byte elements"},
                                                                                    {"O", "Python objects"},
                                                                                    {"U", "strings"},
                                                                                    {"S", "strings"},
                                                                                    {"M", "datetime64"}}};
  for (const auto& [prefix, name] : names) {
    if (code == prefix || (prefix.size() == 1 && code.starts_with(prefix))) return name;
  }
  return code;
}

// The type of the elements of a file whose dtype is `descr`, read as `as` if given.
Result<DType> choose_type(std::string_view descr, std::optional<DType> as) {
  if (descr.empty()) return malformed("the header has an empty dtype");
  const bool has_order = std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view code = has_order ? descr.substr(1) : descr;
  if (descr[0] == '>') {
    return make_error(ErrorKind::unsupported, "E642",
                      concat("the array has the big-endian dtype ", quote_text(descr, 40)))
        .with_help("convert it in Python: array.astype(array.dtype.newbyteorder('<'))");
  }
  const auto native = native_type(code);
  if (native && (!as || as == native)) return *native;
  if (as && can_hold(code, *as)) return *as;
  if (as && native) {
    return make_error(ErrorKind::invalid, "E642", "the array has another dtype than the one asked for")
        .with_expected(std::string(to_string(*as)))
        .with_got(std::string(to_string(*native)));
  }
  auto error = make_error(
      ErrorKind::unsupported, "E642",
      concat("the array has the dtype ", quote_text(descr, 40), " (", escape_text(numpy_name(code), 40), ")"));
  error.with_expected(as ? concat("elements that can be ", to_string(*as))
                         : "f64, f32, f16, i64, i32, i16, i8, u8 or bool");
  if (!as && (can_hold(code, DType::bf16) || can_hold(code, DType::f8e4m3))) {
    error.with_help("numpy has no name for this type; say which it is (bf16, f8e4m3, f8e5m2, u4, i4)");
  } else {
    error.with_help("convert it in Python, for example array.astype(numpy.int64)");
  }
  return error;
}

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// The header is a Python dict literal; of Python only what numpy writes there is understood.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Result<NpyHeader> parse() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    RTX_TRY(expect('{'));
    while (!accept('}')) {
      RTX_ASSIGN(const std::string key, parse_string());
      bool* const has = key == "descr"           ? &has_descr
                        : key == "fortran_order" ? &has_order
                        : key == "shape"         ? &has_shape
                                                 : nullptr;
      if (has == nullptr || std::exchange(*has, true)) return error("an unknown or repeated key");
      RTX_TRY(expect(':'));
      if (has == &has_descr) {
        if (peek() == '[') {
          return make_error(ErrorKind::unsupported, "E642", "the array has a structured dtype")
              .with_help("save each field as an array of its own");
        }
        RTX_ASSIGN(header.descr, parse_string());
      } else if (has == &has_order) {
        RTX_ASSIGN(header.fortran_order, parse_bool());
      } else {
        RTX_ASSIGN(header.shape, parse_shape());
      }
      if (!accept(',') && peek() != '}') return error("no comma");
    }
    if (peek() != '\0' || position_ != text_.size()) return error("bytes after the closing brace");
    if (!has_descr || !has_order || !has_shape) return error("not all of the keys descr, fortran_order and shape");
    return header;
  }

 private:
  // The next character that is no white space; 0 at the end.
  char peek() {
    while (position_ < text_.size() && std::string_view(" \t\n\r").find(text_[position_]) != std::string_view::npos)
      ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  Result<void> expect(char c) {
    if (!accept(c)) return error(concat("no '", c, "'"));
    return Ok{};
  }
  Result<std::string> parse_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return error("no string");
    const size_t end = text_.find(quote, position_ + 1);
    const std::string_view text =
        text_.substr(position_ + 1, end == std::string_view::npos ? end : end - position_ - 1);
    if (end == std::string_view::npos || text.find('\\') != std::string_view::npos)
      return error("a string it does not close or escapes");
    position_ = end + 1;
    return std::string(text);
  }
  Result<bool> parse_bool() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    return error("no True or False");
  }
  Result<std::vector<int64_t>> parse_shape() {
    std::vector<int64_t> shape;
    RTX_TRY(expect('('));
    while (!accept(')')) {
      peek();
      int64_t dim = 0;
      const char* const begin = text_.data() + position_;
      const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (code != std::errc() || dim < 0) return error("a dimension that is no integer from 0 to 2^63 - 1");
      position_ += static_cast<size_t>(end - begin);
      shape.push_back(dim);
      if (shape.size() > largest_rank) return error(concat("more than ", largest_rank, " dimensions"));
      if (!accept(',') && peek() != ')') return error("no comma between dimensions");
    }
    return shape;
  }
  Diagnostic error(std::string_view what) const {
    return malformed(concat("the header of the array has ", what, " at byte ", position_));
  }

  std::string_view text_;
  size_t position_ = 0;
};

// Reorders elements of `width` bytes from column-major to row-major order.
std::vector<std::byte> to_row_major(const std::vector<std::byte>& in, const std::vector<int64_t>& shape, size_t width) {
  std::vector<std::byte> out(in.size());
  std::vector<int64_t> index(shape.size(), 0);
  std::vector<size_t> stride(shape.size());
  size_t step = width;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    stride[axis] = step;
    step *= static_cast<size_t>(shape[axis]);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += width) {
    std::memcpy(&out[to], &in[from], width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < shape[axis]) break;
      from -= stride[axis] * static_cast<size_t>(shape[axis]);
      index[axis] = 0;
    }
  }
  return out;
}

Result<std::vector<std::byte>> pack_nibbles(const std::vector<std::byte>& in, DType dtype) {
  std::vector<std::byte> out((in.size() + 1) / 2);
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t value = load_i64(dtype == DType::i4 ? DType::i8 : DType::u8, in.data(), static_cast<int64_t>(i));
    store_i64(dtype, out.data(), static_cast<int64_t>(i), value);
    if (load_i64(dtype, out.data(), static_cast<int64_t>(i)) != value) {
      return malformed(concat("element ", i, " is ", value, ", out of the range of ", to_string(dtype)));
    }
  }
  return out;
}

// A whole file.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const File& file) : file_(file) {}
  Result<void> read(std::span<std::byte> buffer) override {
    RTX_TRY(file_.read(position_, buffer));
    position_ += static_cast<int64_t>(buffer.size());
    return Ok{};
  }

 private:
  const File& file_;
  int64_t position_ = 0;
};

}  // namespace

Result<NpyArray> read_npy_stream(ByteSource& source, int64_t total_bytes, std::optional<DType> as,
                                 const NpyLimits& limits) {
  std::array<unsigned char, 12> start{};
  auto read_start = [&](size_t from, size_t count) {
    return source.read(std::as_writable_bytes(std::span(start).subspan(from, count)));
  };
  if (total_bytes < 10) return malformed("too short for a .npy file").with_got(concat(total_bytes, " bytes"));
  RTX_TRY(read_start(0, 10));
  if (std::memcmp(start.data(), magic.data(), magic.size()) != 0)
    return malformed("not a .npy file (it does not start with \\x93NUMPY)");
  if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
    return make_error(ErrorKind::unsupported, "E642", concat("the .npy format version is ", start[6], ".", start[7]))
        .with_expected("1.0, 2.0 or 3.0");
  }
  int64_t header_start = 10;
  size_t header_bytes = start[8] | static_cast<size_t>(start[9]) << 8;
  if (start[6] > 1) {
    if (total_bytes < 12) return malformed("too short for a .npy file");
    RTX_TRY(read_start(10, 2));
    header_start = 12;
    header_bytes |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
  }
  if (header_bytes > largest_header || static_cast<int64_t>(header_bytes) > total_bytes - header_start) {
    return malformed(concat("the header has ", header_bytes, " bytes"))
        .with_expected(concat("at most ", largest_header, ", and no more than the file has"));
  }
  std::string header_text(header_bytes, '\0');
  RTX_TRY(source.read(std::as_writable_bytes(std::span(header_text))));
  RTX_ASSIGN(const NpyHeader header, HeaderParser(header_text).parse());

  NpyArray array;
  RTX_ASSIGN(array.dtype, choose_type(header.descr, as));
  array.shape = header.shape;
  const bool is_nibble = bit_width(array.dtype) == 4;
  const size_t width = is_nibble ? 1 : static_cast<size_t>(bit_width(array.dtype) / 8);
  int64_t bytes = static_cast<int64_t>(width);
  if (std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end()) bytes = 0;
  for (const int64_t dim : array.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return malformed("the shape has more than 2^63 bytes");
  }
  const int64_t available = total_bytes - header_start - static_cast<int64_t>(header_bytes);
  if (bytes != available) {
    return make_error(ErrorKind::invalid, "E643", "the array's data does not have the size that its header says")
        .with_expected(concat(bytes, " bytes"))
        .with_got(concat(available, " bytes"));
  }
  if (bytes > limits.array_bytes) {
    return make_error(ErrorKind::limit, "E506", "the array is too large")
        .with_expected(concat("at most ", limits.array_bytes, " bytes"))
        .with_got(concat(bytes, " bytes"));
  }
  array.bytes.resize(static_cast<size_t>(bytes));
  RTX_TRY(source.read(array.bytes));
  if (array.dtype == DType::boolean &&
      std::any_of(array.bytes.begin(), array.bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
    return malformed("a boolean is neither 0 nor 1");
  }
  if (header.fortran_order && array.shape.size() > 1) array.bytes = to_row_major(array.bytes, array.shape, width);
  if (is_nibble) {
    RTX_ASSIGN(array.bytes, pack_nibbles(array.bytes, array.dtype));
  }
  return array;
}

Result<std::string> npy_header(const NpyArray& array) {
  int64_t elements = 1;
  bool fits = true;
  for (const int64_t dim : array.shape) fits = fits && dim >= 0 && !__builtin_mul_overflow(elements, dim, &elements);
  const auto bytes = fits ? packed_bytes(array.dtype, elements) : std::nullopt;
  if (bytes != static_cast<int64_t>(array.bytes.size())) {
    return make_error(ErrorKind::internal, "E643", "an array to be written does not have the size of its shape");
  }
  std::string_view descr = "|u1";
  switch (array.dtype) {
    case DType::f64:
      descr = "<f8";
      break;
    case DType::f32:
      descr = "<f4";
      break;
    case DType::f16:
      descr = "<f2";
      break;
    case DType::bf16:
      descr = "<V2";
      break;
    case DType::f8e4m3:
    case DType::f8e5m2:
      descr = "|V1";
      break;
    case DType::i64:
      descr = "<i8";
      break;
    case DType::i32:
      descr = "<i4";
      break;
    case DType::i16:
      descr = "<i2";
      break;
    case DType::i8:
    case DType::i4:
      descr = "|i1";
      break;
    case DType::u8:
    case DType::u4:
      descr = "|u1";
      break;
    case DType::boolean:
      descr = "|b1";
      break;
  }
  const std::string dict =
      concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
             join(array.shape, ", ", [](int64_t dim) { return dim; }), array.shape.size() == 1 ? "," : "", "), }");
  // The elements start at a multiple of 64 bytes; the header ends with a newline.
  const size_t size = (10 + dict.size() + 1 + header_alignment - 1) / header_alignment * header_alignment - 10;
  if (size > 0xFFFF) return make_error(ErrorKind::limit, "E506", "the array has too many dimensions to be written");
  std::string header(magic);
  header += {'\1', '\0', static_cast<char>(size & 0xFF), static_cast<char>(size >> 8)};
  header += dict;
  header.append(size - dict.size() - 1, ' ');
  return header + '\n';
}

std::span<const std::byte> npy_elements(const NpyArray& array, std::vector<std::byte>& storage) {
  if (bit_width(array.dtype) != 4) return array.bytes;
  int64_t elements = 1;
  for (const int64_t dim : array.shape) elements *= dim;
  storage.resize(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i)
    store_i64(DType::i8, storage.data(), i, load_i64(array.dtype, array.bytes.data(), i));
  return storage;
}

Result<NpyArray> read_npy(const File& file, std::optional<DType> as, const NpyLimits& limits) {
  FileSource source(file);
  auto array = read_npy_stream(source, file.size(), as, limits);
  if (!array) return std::move(array).error().within(escape_text(file.path()));
  return array;
}

Result<void> write_npy(const std::string& path, const NpyArray& array) {
  RTX_ASSIGN(const std::string header, npy_header(array));
  RTX_ASSIGN(const auto writer, FileWriter::create(path));
  std::vector<std::byte> storage;
  RTX_TRY(writer->write(header));
  RTX_TRY(writer->write(npy_elements(array, storage)));
  return writer->commit();
}

}  // namespace rtx
