#include "frontend/wire_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "frontend/check_name.h"
#include "frontend/wire_schema.h"

namespace rtx::onnx {
namespace {

constexpr int64_t string_memory_bytes = 80;                // an empty string in a list, here and in the model
constexpr int64_t free_memory_bytes = int64_t{192} << 20;  // objects that any file may ask for

std::string describe_first_bytes(std::string_view head) {
  struct Known {
    std::string_view magic, text;
  };
  constexpr Known known[] = {
      {"\x89PNG", "it starts like a PNG image"},
      {"PK\x03\x04", "it starts like a zip archive"},
      {"\x1f\x8b", "it starts like gzip data"},
      {"\x7f"
       "ELF",
       "it starts like an ELF binary"},
      {"version https://git-lfs", "it is a Git LFS pointer: run 'git lfs pull' to get the file itself"},
      {"<", "it starts like an HTML or XML page"},
      {"{", "it starts like JSON text"},
  };
  for (const Known& candidate : known)
    if (head.substr(0, candidate.magic.size()) == candidate.magic) return std::string(candidate.text);
  if (head.size() > 9 && head[8] == '{') return "it starts like a safetensors file";
  return {};
}

class Scanner {
 public:
  Scanner(const File& file, const ReadLimits& limits)
      : file_(file), limits_(limits), buffer_(static_cast<size_t>(std::clamp<int64_t>(file.size(), 1, 1 << 20))) {}

  Result<std::string> run() {
    if (file_.size() > limits_.max_file_bytes)
      return limit_error("E501", "the model file is too large", "bytes", file_.size(), limits_.max_file_bytes,
                         "--max-file-bytes", "store the weights as external data");
    if (file_.size() == 0) return make_error(ErrorKind::invalid, "E101", "not an ONNX model: the file is empty");
    if (!scan_message(schema_.root(), file_.size(), 0, true)) {
      if (error_->kind == ErrorKind::invalid && !plausible_) return not_a_model();
      return *std::move(error_);
    }
    if (!plausible_) return not_a_model();
    return std::move(out_);
  }

  Result<std::string> run_tensor() {
    if (!scan_message(schema_.tensor(), file_.size(), 0, true)) return *std::move(error_);
    return std::move(out_);
  }

 private:
  // One level of the path that errors print.
  struct PathStep {
    const FieldInfo* field;
    int64_t index;
  };

  Diagnostic not_a_model() {
    Diagnostic result = make_error(ErrorKind::invalid, "E101", "not an ONNX model");
    char head[32] = {};
    const size_t size = static_cast<size_t>(std::min<int64_t>(file_.size(), sizeof head));
    if (file_.read(0, std::as_writable_bytes(std::span(head, size))))
      if (std::string text = describe_first_bytes({head, size}); !text.empty()) result.with_note(text);
    if (error_) result.with_note(concat(error_->message, error_->where.empty() ? "" : " at ", error_->where));
    return result;
  }

  std::string path() const {
    std::string text;
    for (const PathStep& step : path_) {
      if (!text.empty()) text += '.';
      text += step.field->name;
      if (step.field->repeated) text += concat("[", step.index, "]");
    }
    return text;
  }

  Diagnostic limit_error(std::string_view id, std::string message, std::string_view unit, int64_t got, int64_t limit,
                         std::string_view flag, std::string_view help = {}) const {
    return make_error(ErrorKind::limit, id, std::move(message))
        .with_where(path())
        .with_expected(concat("at most ", limit, " ", unit))
        .with_got(concat(got, " ", unit))
        .with_help(help.empty() ? concat("raise the limit with ", flag)
                                : concat(help, ", or raise the limit with ", flag));
  }

  bool fail(Diagnostic diagnostic) {
    if (!error_) error_ = std::move(diagnostic);
    return false;
  }
  bool malformed(std::string_view id, std::string message) {
    return fail(make_error(ErrorKind::invalid, id, std::move(message))
                    .with_where(concat(path(), path_.empty() ? "" : ", ", "byte ", position_)));
  }
  bool truncated(std::string message) { return malformed("E102", concat("truncated or malformed: ", message)); }

  // Makes the byte at position_ available; the caller has checked position_ < end <= file size.
  bool fill() {
    if (position_ >= buffer_start_ && position_ < buffer_end_) return true;
    const int64_t size = std::min<int64_t>(static_cast<int64_t>(buffer_.size()), file_.size() - position_);
    if (Result<void> read = file_.read(position_, std::as_writable_bytes(std::span(buffer_).first(size))); !read)
      return fail(read.error().first());
    buffer_start_ = position_;
    buffer_end_ = position_ + size;
    return true;
  }

  bool read_varint(int64_t end, uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (position_ >= end) return truncated("a varint runs past the end of its message");
      if (!fill()) return false;
      const uint8_t byte = static_cast<uint8_t>(buffer_[static_cast<size_t>(position_ - buffer_start_)]);
      ++position_;
      if (shift == 63 && byte > 1) return truncated("a varint does not fit 64 bits");
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return true;
    }
    return truncated("a varint is longer than 10 bytes");
  }

  bool read_length(int64_t end, int64_t& length) {
    uint64_t value;
    if (!read_varint(end, value)) return false;
    if (value > static_cast<uint64_t>(end - position_))
      return truncated(concat("a length of ", value, " bytes, but ", end - position_, " are left"));
    length = static_cast<int64_t>(value);
    return true;
  }

  void emit_varint(uint64_t value) {
    while (value >= 0x80) {
      out_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    out_ += static_cast<char>(value);
  }

  // Moves `length` bytes on, copying them to the output if `emit`; `piece` sees them too.
  template <typename F>
  bool copy(int64_t length, bool emit, F piece) {
    while (length > 0) {
      if (!fill()) return false;
      const int64_t size = std::min(length, buffer_end_ - position_);
      const std::string_view bytes(buffer_.data() + (position_ - buffer_start_), static_cast<size_t>(size));
      if (emit) out_ += bytes;
      piece(bytes);
      position_ += size;
      length -= size;
    }
    return true;
  }

  bool count_dims(const FieldInfo& field, int64_t count) {
    if (!field.is_dims || count <= limits_.max_rank) return true;
    return fail(
        limit_error("E504", "the rank of a tensor is too large", "axes", count, limits_.max_rank, "--max-rank"));
  }

  // A packed list of numbers. `count` is the number of entries before it and after it.
  bool scan_packed(const FieldInfo& field, int64_t length, bool emit, int64_t& count) {
    if (field.kind == FieldKind::fixed32 || field.kind == FieldKind::fixed64) {
      const int64_t width = field.kind == FieldKind::fixed32 ? 4 : 8;
      if (length % width != 0)
        return truncated(
            concat("a packed list of ", length, " bytes is not a whole number of ", width, "-byte elements"));
      count += length / width;
      return count_dims(field, count) && copy(length, emit, [](std::string_view) {});
    }
    int run = 0;  // bytes of the current varint
    bool too_long = false;
    // Rank is checked before the copy so that a list of millions of dims is never stored.
    const int64_t stop = position_ + length;
    while (position_ < stop) {
      const int64_t size = std::min<int64_t>(stop - position_, 1 << 16);
      const bool copied = copy(size, emit, [&](std::string_view bytes) {
        for (char c : bytes) {
          if (static_cast<uint8_t>(c) < 0x80) {
            ++count;
            run = 0;
          } else if (++run >= 10) {
            too_long = true;
          }
        }
      });
      if (!copied || !count_dims(field, count)) return false;
      if (too_long) return truncated("a packed varint is longer than 10 bytes");
    }
    if (run != 0) return truncated("the last packed varint does not end");
    return true;
  }

  // A few bytes of the file can ask for hundreds of memory.
  bool count_memory(int64_t bytes) {
    memory_ += bytes;
    int64_t limit = 0;
    if (__builtin_mul_overflow(limits_.max_expansion, file_.size(), &limit) ||
        __builtin_add_overflow(limit, free_memory_bytes, &limit) || memory_ <= limit)
      return true;
    return fail(limit_error("E501", "the file would take too much memory", "bytes", memory_, limit, "--max-expansion"));
  }

  bool scan_text(const FieldInfo& field, int64_t length, bool emit) {
    // Documentation is not kept, so its length does not matter. Names go through the one check of names.
    if (field.kind == FieldKind::name && !field.dropped) {
      if (length > limits_.max_name_bytes)
        return fail(
            limit_error("E111", "a name is too long", "bytes", length, limits_.max_name_bytes, "--max-name-bytes"));
      text_.clear();
      if (!copy(length, emit, [&](std::string_view bytes) { text_ += bytes; })) return false;
      if (std::string flaw = name_flaw(text_); !flaw.empty())
        return fail(make_error(ErrorKind::invalid, "E111", concat("bad name '", escape_text(text_), "': ", flaw))
                        .with_where(path()));
      return true;
    }
    if (field.dropped) return copy(length, emit, [](std::string_view) {});
    text_.clear();
    if (!copy(length, emit, [&](std::string_view bytes) { text_ += bytes; })) return false;
    return is_utf8(text_) || malformed("E111", "text that is not UTF-8");
  }

  bool count_message(const FieldInfo& field, const MessageTable& parent) {
    if (++messages_ > limits_.max_messages)
      return fail(limit_error("E501", "too many messages in the file", "messages", messages_, limits_.max_messages,
                              "--max-messages"));
    if (field.message->is_node && ++nodes_ > limits_.max_nodes)
      return fail(limit_error("E501", "too many nodes in the file", "nodes", nodes_, limits_.max_nodes, "--max-nodes"));
    if (parent.is_graph && field.name == "initializer" && ++initializers_ > limits_.max_initializers)
      return fail(limit_error("E501", "too many initializers in the file", "initializers", initializers_,
                              limits_.max_initializers, "--max-initializers"));
    return count_memory(field.message->memory_bytes);
  }

  bool skip_unknown(WireType wire, int64_t end) {
    uint64_t ignored;
    int64_t length = 0;
    switch (wire) {
      case WireType::varint:
        return read_varint(end, ignored);
      case WireType::fixed64:
        length = 8;
        break;
      case WireType::fixed32:
        length = 4;
        break;
      case WireType::bytes:
        if (!read_length(end, length)) return false;
        break;
      case WireType::group_start:
      case WireType::group_end:
        return malformed("E102", "truncated or malformed: a group field, which ONNX does not have");
      default:
        return truncated("invalid wire type");
    }
    if (length > end - position_) return truncated("a field runs past the end of its message");
    position_ += length;
    return true;
  }

  bool scan_message(const MessageTable& table, int64_t end, int depth, bool emit) {
    if (depth > max_message_depth(limits_))
      return fail(limit_error("E502", "messages are nested too deep", "levels", depth, max_message_depth(limits_),
                              "--max-depth"));
    if (table.is_graph && ++graph_depth_ > limits_.max_depth + 1)
      return fail(limit_error("E502", "subgraphs are nested too deep", "levels", graph_depth_ - 1, limits_.max_depth,
                              "--max-depth"));
    const int64_t start = position_;
    uint64_t seen = 0;
    uint32_t seen_oneofs = 0;
    std::array<int64_t, max_field_number + 1> counts{};
    while (position_ < end) {
      if (++fields_ > limits_.max_wire_fields)
        return fail(limit_error("E501", "too many fields in the file", "fields", fields_, limits_.max_wire_fields,
                                "--max-wire-fields"));
      uint64_t tag;
      if (!read_varint(end, tag)) return false;
      if (tag > UINT32_MAX || (tag >> 3) == 0) return truncated("invalid field number");
      const uint64_t number = tag >> 3;
      const WireType wire = static_cast<WireType>(tag & 7);
      const FieldInfo* field = number <= max_field_number ? &table.fields[number] : nullptr;
      if (!field || field->kind == FieldKind::unknown) {
        if (!skip_unknown(wire, end)) return false;
        continue;
      }
      path_.push_back({field, counts[number]});
      if (!field->repeated && (seen >> number & 1))
        return malformed("E103", concat("field '", field->name, "' occurs twice in ", table.name));
      seen |= uint64_t{1} << number;
      if (field->oneof >= 0) {
        if (seen_oneofs >> field->oneof & 1)
          return malformed("E103", concat("two alternatives of one choice occur in ", table.name));
        seen_oneofs |= uint32_t{1} << field->oneof;
      }
      if (!scan_field(table, *field, tag, wire, end, depth, emit && !field->dropped, counts[number])) return false;
      if (depth == 0 && (field->name == "graph" || field->name == "ir_version")) plausible_ = true;
      path_.pop_back();
    }
    if (table.is_graph) --graph_depth_;
    if (table.is_tensor && emit) emit_data(table, {start, end - start}, counts);
    return true;
  }

  // The places of a tensor's data instead of the data, as its raw_data.
  void emit_data(const MessageTable& table, const FileRange& tensor,
                 const std::array<int64_t, max_field_number + 1>& counts) {
    std::string places;
    int64_t raw_data_number = 0;
    for (size_t number = 0; number < counts.size(); ++number) {
      const FieldInfo& field = table.fields[number];
      const bool is_raw = field.kind == FieldKind::raw_data;
      if (is_raw) raw_data_number = static_cast<int64_t>(number);
      if (counts[number] == 0 || !(is_raw || field.is_tensor_data)) continue;
      const ScannedData data = {static_cast<int64_t>(number), is_raw ? raw_data_ : tensor, counts[number]};
      places.append(reinterpret_cast<const char*>(&data), sizeof data);
    }
    if (places.empty()) return;
    emit_varint(static_cast<uint64_t>(raw_data_number) << 3 | static_cast<uint64_t>(WireType::bytes));
    emit_varint(places.size());
    out_ += places;
  }

  bool scan_field(const MessageTable& table, const FieldInfo& field, uint64_t tag, WireType wire, int64_t end,
                  int depth, bool emit, int64_t& count) {
    const WireType expected = wire_type_of(field.kind);
    const bool packed = wire == WireType::bytes && expected != WireType::bytes && field.repeated;
    if (wire != expected && !packed) {
      const bool known = wire <= WireType::bytes || wire == WireType::fixed32;
      return malformed(known ? "E104" : "E102", concat("field '", field.name, "' of ", table.name, " has wire type ",
                                                       static_cast<int>(wire), ", not ", static_cast<int>(expected)));
    }
    // Replaced at the end of the tensor.
    if (field.is_tensor_data || field.kind == FieldKind::raw_data) emit = false;
    if (emit) emit_varint(tag);
    if (packed) {
      int64_t length = 0;
      if (!read_length(end, length)) return false;
      if (emit) emit_varint(static_cast<uint64_t>(length));
      return scan_packed(field, length, emit, count);
    }
    ++count;
    if (!count_dims(field, count)) return false;
    switch (expected) {
      case WireType::varint: {
        uint64_t value;
        if (!read_varint(end, value)) return false;
        const int64_t number = static_cast<int64_t>(value);
        const bool fits = number >= INT32_MIN && number <= INT32_MAX;
        if (field.enumeration && (!fits || !field.enumeration->FindValueByNumber(static_cast<int>(number))))
          return malformed("E105", concat("field '", field.name, "' of ", table.name, ": ", number, " is no value of ",
                                          field.enumeration->name()));
        if (field.is_int32 && !fits)
          return malformed("E105",
                           concat("field '", field.name, "' of ", table.name, ": ", number, " does not fit 32 bits"));
        if (emit) emit_varint(value);
        return true;
      }
      case WireType::fixed32:
      case WireType::fixed64: {
        const int64_t width = expected == WireType::fixed32 ? 4 : 8;
        if (width > end - position_) return truncated("a number runs past the end of its message");
        return copy(width, emit, [](std::string_view) {});
      }
      default:
        break;
    }
    int64_t length = 0;
    if (!read_length(end, length)) return false;
    if (field.kind == FieldKind::message)
      return count_message(field, table) && scan_submessage(field, length, depth, emit);
    if (field.kind == FieldKind::raw_data) {
      raw_data_ = {position_, length};
      position_ += length;
      return true;
    }
    if (emit) emit_varint(static_cast<uint64_t>(length));
    if (!count_memory(string_memory_bytes)) return false;
    if (field.kind == FieldKind::bytes) return copy(length, emit, [](std::string_view) {});
    return scan_text(field, length, emit);
  }

  bool scan_submessage(const FieldInfo& field, int64_t length, int depth, bool emit) {
    // The length of what will be written is known only afterwards: a varint of five bytes is filled in then.
    const size_t length_place = out_.size();
    if (emit) out_.append(5, '\0');
    if (!scan_message(*field.message, position_ + length, depth + 1, emit)) return false;
    if (!emit) return true;
    const size_t written = out_.size() - length_place - 5;
    if (out_.size() > INT32_MAX)
      return fail(limit_error("E501", "the model without its raw data is too large", "bytes",
                              static_cast<int64_t>(out_.size()), INT32_MAX, "none: this one is fixed",
                              "store tensors as raw_data"));
    for (int i = 0; i < 5; ++i)
      out_[length_place + static_cast<size_t>(i)] = static_cast<char>((written >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
    return true;
  }

  const File& file_;
  const ReadLimits& limits_;
  const WireSchema schema_;
  std::vector<char> buffer_;
  int64_t buffer_start_ = 0, buffer_end_ = 0;
  int64_t position_ = 0;
  int64_t memory_ = 0;
  FileRange raw_data_;  // of the tensor that was scanned last, if it has one
  int64_t fields_ = 0, messages_ = 0, nodes_ = 0, initializers_ = 0;
  int64_t graph_depth_ = 0;
  bool plausible_ = false;  // a field that only a model has was read
  std::vector<PathStep> path_;
  std::string text_;
  std::string out_;
  std::optional<Diagnostic> error_;
};

}  // namespace

int max_message_depth(const ReadLimits& limits) {
  // A subgraph is three messages below its graph (node, attribute, graph); inside one, a dimension of a value is the
  // deepest (value, type, tensor type, shape, dim), and sequence types may nest a little.
  return static_cast<int>(3 * std::min<int64_t>(limits.max_depth, 1000) + 1 + 12);
}

Result<std::string> scan_model_file(const File& file, const ReadLimits& limits) { return Scanner(file, limits).run(); }

Result<std::string> scan_tensor_file(const File& file, const ReadLimits& limits) {
  return Scanner(file, limits).run_tensor();
}

std::vector<ScannedData> scanned_data(std::string_view raw_data) {
  static_assert(std::is_trivially_copyable_v<ScannedData>);
  std::vector<ScannedData> result(raw_data.size() / sizeof(ScannedData));
  if (!result.empty()) std::memcpy(result.data(), raw_data.data(), result.size() * sizeof(ScannedData));
  return result;
}

}  // namespace rtx::onnx
