#include "base/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "base/sha256.h"
#include "base/text.h"
#include "base/utf8.h"

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian");

namespace rtx {
namespace {

using Json = nlohmann::json;

constexpr int64_t largest_header = 100'000'000;  // the limit of the reference implementation
constexpr int64_t data_alignment = 64;
// Small enough to be read, written and done with in the processor's cache: 4 MiB at a time copies at half the speed.
// Larger with a hash, so that starting its thread does not count.
constexpr size_t piece_bytes = size_t{256} << 10, hashed_piece_bytes = size_t{2} << 20;
constexpr std::string_view metadata_key = "__metadata__";

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<TypeName, dtype_count> type_names = {{{DType::f64, "F64"},
                                                           {DType::f32, "F32"},
                                                           {DType::f16, "F16"},
                                                           {DType::bf16, "BF16"},
                                                           {DType::f8e4m3, "F8_E4M3"},
                                                           {DType::f8e5m2, "F8_E5M2"},
                                                           {DType::i64, "I64"},
                                                           {DType::i32, "I32"},
                                                           {DType::i16, "I16"},
                                                           {DType::i8, "I8"},
                                                           {DType::u8, "U8"},
                                                           {DType::u4, "U4"},
                                                           {DType::i4, "I4"},
                                                           {DType::boolean, "BOOL"}}};

Diagnostic header_error(std::string_view id, std::string message) {
  return make_error(ErrorKind::integrity, id, std::move(message));
}

// Bytes of a tensor, or nullopt if a product does not fit.
std::optional<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
  int64_t elements = 1;
  // A zero anywhere makes the product zero, whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) return std::nullopt;
  }
  return packed_bytes(dtype, elements);
}

// Builds the index from the events of the JSON parser and stops at the first thing the format does not allow. Nothing
// is kept but the entries, so nesting and size of a hostile header cost nothing.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  SafetensorsIndex index;  // offsets relative to the start of the data
  std::optional<Diagnostic> error;

  bool start_object(size_t) override {
    switch (state_) {
      case State::start:
        state_ = State::top;
        return true;
      case State::top_value:
        state_ = name_ == metadata_key ? State::metadata : State::entry;
        entry_ = {};
        has_dtype_ = has_shape_ = has_offsets_ = false;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& text) override {
    switch (state_) {
      case State::top:
        name_ = std::move(text);
        state_ = State::top_value;
        if (name_ == metadata_key ? std::exchange(has_metadata_, true) : index.contains(name_)) {
          return fail("E624", concat("the key ", quote_text(name_), " stands twice"));
        }
        return true;
      case State::metadata:
        if (!metadata_keys_.insert(text).second) {
          return fail("E624", concat("the key ", quote_text(text), " of the metadata stands twice"));
        }
        state_ = State::metadata_value;
        return true;
      case State::entry:
        if (text == "dtype") return enter(has_dtype_, State::dtype, text);
        if (text == "shape") return enter(has_shape_, State::shape_start, text);
        if (text == "data_offsets") return enter(has_offsets_, State::offsets_start, text);
        return fail("E623", concat("tensor ", quote_text(name_), " has the unknown key ", quote_text(text)));
      default:
        return unexpected("a key");
    }
  }

  bool string(std::string& text) override {
    if (state_ == State::metadata_value) {
      state_ = State::metadata;
      return true;
    }
    if (state_ != State::dtype) return unexpected("a string");
    const auto found =
        std::find_if(type_names.begin(), type_names.end(), [&](const TypeName& t) { return t.name == text; });
    if (found == type_names.end()) {
      return fail("E625", concat("tensor ", quote_text(name_), " has the dtype ", quote_text(text),
                                 ", which rtx does not know"));
    }
    entry_.dtype = found->dtype;
    state_ = State::entry;
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    if (state_ == State::shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return bad_number(std::to_string(value));
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ == State::offsets && offsets_ < 2) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return bad_number(std::to_string(value));
      (offsets_++ == 0 ? entry_.offset : end_) = static_cast<int64_t>(value);
      return true;
    }
    return unexpected("a number");
  }
  bool number_integer(int64_t value) override { return bad_number(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return bad_number(text); }

  bool start_array(size_t) override {
    if (state_ == State::shape_start) {
      state_ = State::shape;
    } else if (state_ == State::offsets_start) {
      state_ = State::offsets;
      offsets_ = 0;
    } else {
      return unexpected("an array");
    }
    return true;
  }
  bool end_array() override {
    if (state_ == State::offsets && offsets_ != 2) {
      return fail("E623",
                  concat("tensor ", quote_text(name_), " has data_offsets of ", offsets_, " numbers, expected 2"));
    }
    state_ = State::entry;
    return true;
  }

  bool end_object() override {
    switch (state_) {
      case State::top:
        state_ = State::end;
        return true;
      case State::metadata:
        state_ = State::top;
        return true;
      case State::entry:
        state_ = State::top;
        return finish_entry();
      default:
        return unexpected("the end of an object");
    }
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool binary(Json::binary_t&) override { return unexpected("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("E623", concat("the header is not JSON (at byte ", position, " of it)"));
  }

 private:
  enum class State {
    start,
    top,
    top_value,
    metadata,
    metadata_value,
    entry,
    dtype,
    shape_start,
    shape,
    offsets_start,
    offsets,
    end
  };

  bool fail(std::string_view id, std::string message) {
    error = header_error(id, std::move(message));
    return false;
  }
  bool unexpected(std::string_view what) {
    if (state_ == State::metadata_value || (state_ == State::top_value && name_ == metadata_key)) {
      return fail("E629", concat("__metadata__ holds ", what, ", expected an object of strings"));
    }
    const std::string place = name_.empty() ? std::string() : concat(" in tensor ", quote_text(name_));
    return fail("E623", concat("the header holds ", what, place, " where the format has none"));
  }
  bool bad_number(const std::string& text) {
    if (state_ != State::shape && state_ != State::offsets) return unexpected("a number");
    return fail("E626", concat("tensor ", quote_text(name_), " has the number ", escape_text(text, 40),
                               ", expected an unsigned integer below 2^63"));
  }
  bool enter(bool& has, State next, std::string_view key) {
    if (has) return fail("E624", concat("tensor ", quote_text(name_), " has the key '", key, "' twice"));
    has = true;
    state_ = next;
    return true;
  }
  bool finish_entry() {
    if (!has_dtype_ || !has_shape_ || !has_offsets_) {
      return fail("E623", concat("tensor ", quote_text(name_), " lacks one of dtype, shape and data_offsets"));
    }
    const auto expected = tensor_bytes(entry_.dtype, entry_.shape);
    entry_.bytes = end_ - entry_.offset;
    if (!expected || *expected != entry_.bytes) {
      error = header_error("E627", concat("tensor ", quote_text(name_), " does not fill its range of the file"))
                  .with_expected(expected ? concat(*expected, " bytes for its dtype and shape")
                                          : std::string("a size below 2^63 bytes"))
                  .with_got(concat("data_offsets [", entry_.offset, ", ", end_, "]"));
      return false;
    }
    index.emplace(std::move(name_), std::move(entry_));
    name_.clear();
    return true;
  }

  State state_ = State::start;
  std::string name_;
  SafetensorsEntry entry_;
  int64_t end_ = 0;
  int offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false, has_metadata_ = false;
  std::set<std::string> metadata_keys_;
};

// Every byte of the data belongs to exactly one tensor.
Result<void> check_cover(const SafetensorsIndex& index, int64_t data_bytes) {
  std::vector<std::tuple<int64_t, int64_t, std::string_view>> ranges;
  ranges.reserve(index.size());
  for (const auto& [name, entry] : index) ranges.emplace_back(entry.offset, entry.bytes, name);
  std::sort(ranges.begin(), ranges.end());
  int64_t position = 0;
  for (const auto& [offset, bytes, name] : ranges) {
    if (offset != position || bytes > data_bytes - offset) {
      return header_error("E628", concat("the data of tensor ", quote_text(name),
                                         offset < position   ? " overlaps that of another"
                                         : offset > position ? " has a hole before it"
                                                             : " ends past the end of the file"))
          .with_expected(concat("its start at data offset ", position, ", its end at most at ", data_bytes))
          .with_got(concat(bytes, " bytes at data offset ", offset));
    }
    position += bytes;
  }
  if (position != data_bytes) {
    return header_error("E628", "bytes that belong to no tensor follow the data")
        .with_expected(concat(position, " bytes of data"))
        .with_got(concat(data_bytes, " bytes"));
  }
  return Ok{};
}

Result<SafetensorsIndex> read_index(const File& file) {
  uint64_t header_bytes = 0;
  if (file.size() < static_cast<int64_t>(sizeof header_bytes)) {
    return header_error("E621", "too short for a safetensors file")
        .with_expected("at least 8 bytes")
        .with_got(concat(file.size(), " bytes"));
  }
  RTX_TRY(file.read(0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (header_bytes > static_cast<uint64_t>(file.size()) - sizeof header_bytes) {
    return header_error("E621", "the header is longer than the file")
        .with_expected(concat("a header of at most ", file.size() - 8, " bytes"))
        .with_got(concat(header_bytes, " bytes"));
  }
  if (header_bytes > static_cast<uint64_t>(largest_header)) {
    return header_error("E622", "the header is too long")
        .with_expected(concat("at most ", largest_header, " bytes"))
        .with_got(concat(header_bytes, " bytes"));
  }
  std::string header(header_bytes, '\0');
  RTX_TRY(file.read(sizeof header_bytes, std::as_writable_bytes(std::span(header))));
  if (!header.starts_with('{')) return header_error("E623", "the header does not start with '{'");
  // The JSON reader takes a NUL for the end, and would not look at what hides behind it.
  if (const size_t last = header.find_last_not_of(' '); header[last] != '}' || header.find('\0') != std::string::npos)
    return header_error("E623", "the header does not end in '}' and blanks");

  HeaderReader reader;
  if (!Json::sax_parse(header.begin(), header.end(), &reader)) {
    return reader.error ? *std::move(reader.error) : header_error("E623", "the header is not JSON");
  }
  const int64_t data_start = static_cast<int64_t>(sizeof header_bytes + header_bytes);
  RTX_TRY(check_cover(reader.index, file.size() - data_start));
  for (auto& [name, entry] : reader.index) entry.offset += data_start;
  return std::move(reader.index);
}

Result<std::string> make_header(std::span<const SafetensorsTensor> tensors) {
  std::string header = "{";
  std::set<std::string_view> names;
  int64_t position = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.name == metadata_key || !is_utf8(tensor.name) || !names.insert(tensor.name).second) {
      return make_error(ErrorKind::invalid, "E624",
                        concat("the tensor name ", quote_text(tensor.name), " is reserved, not UTF-8, or used twice"));
    }
    if (tensor_bytes(tensor.dtype, tensor.shape) != tensor.bytes) {
      return make_error(
          ErrorKind::internal, "E627",
          concat("tensor ", quote_text(tensor.name), " has ", tensor.bytes, " bytes, not those of its shape"));
    }
    const int64_t end = position + tensor.bytes;
    header += concat(names.size() == 1 ? "" : ",", Json(tensor.name).dump(), ":{\"dtype\":\"",
                     type_names[static_cast<size_t>(tensor.dtype)].name, "\",\"shape\":[",
                     join(tensor.shape, ",", [](int64_t dim) { return dim; }), "],\"data_offsets\":[", position, ",",
                     end, "]}");
    position = end;
  }
  header += '}';
  header.append(static_cast<size_t>(-(8 + static_cast<int64_t>(header.size())) & (data_alignment - 1)), ' ');
  return header;
}

// The hash of bytes given in pieces, computed on a thread of its own. A piece must stay as it is until the next but one
// is given.
class HashBehind {
 public:
  explicit HashBehind(bool wanted) : wanted_(wanted) {}
  ~HashBehind() { wait(); }

  void update(std::span<const std::byte> bytes) {
    wait();
    if (!wanted_) return;
    // A thread costs about as much as hashing this many bytes.
    if (bytes.size() < 256 << 10)
      hash_.update(bytes);
    else
      running_ = std::async(std::launch::async, [this, bytes] { hash_.update(bytes); });
  }
  // Empty if not wanted.
  std::string finish_hex() {
    wait();
    return wanted_ ? hash_.finish_hex() : std::string();
  }

 private:
  void wait() {
    if (running_.valid()) running_.get();
  }

  bool wanted_;
  Sha256 hash_;
  std::future<void> running_;
};

}  // namespace

Result<SafetensorsIndex> read_safetensors_index(const File& file) {
  auto index = read_index(file);
  if (!index) return std::move(index).error().within(escape_text(file.path()));
  return index;
}

Result<WrittenSafetensors> write_safetensors(
    const std::string& path, std::span<const SafetensorsTensor> tensors,
    const std::function<Result<void>(size_t, int64_t, std::span<std::byte>)>& produce,
    const WriteSafetensorsOptions& options) {
  RTX_ASSIGN(const std::string header, make_header(tensors));
  RTX_ASSIGN(const auto writer, FileWriter::create(path));
  WrittenSafetensors written;
  const int64_t piece_limit = static_cast<int64_t>(options.hash ? hashed_piece_bytes : piece_bytes);
  // Two in turn: the one before may still be hashed.
  std::vector<std::byte> pieces[2];
  size_t turn = 0;
  HashBehind hash(options.hash);
  auto put = [&](std::span<const std::byte> bytes) {
    hash.update(bytes);
    written.bytes += static_cast<int64_t>(bytes.size());
    return writer->write(bytes);
  };
  const uint64_t header_bytes = header.size();
  RTX_TRY(put(std::as_bytes(std::span(&header_bytes, 1))));
  RTX_TRY(put(std::as_bytes(std::span(header))));
  int64_t all = 0, done = 0;
  for (const SafetensorsTensor& tensor : tensors) all += tensor.bytes;  // the header fits: so does the sum
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (int64_t offset = 0; offset < tensors[i].bytes;) {
      std::vector<std::byte>& piece = pieces[turn ^= 1];
      piece.resize(static_cast<size_t>(std::min(piece_limit, tensors[i].bytes - offset)));
      RTX_TRY(produce(i, offset, piece));
      RTX_TRY(put(piece));
      offset += static_cast<int64_t>(piece.size());
      done += static_cast<int64_t>(piece.size());
      if (options.on_progress) options.on_progress(done, all);
    }
  }
  RTX_TRY(writer->commit());
  written.sha256 = hash.finish_hex();
  return written;
}

}  // namespace rtx
