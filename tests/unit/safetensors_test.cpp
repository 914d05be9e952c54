#include "base/safetensors.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>

#include "base/sha256.h"
#include "base/text.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

std::string with_length(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return concat(file, header, data);
}

// The id of the error of reading a file with these contents; "ok" if it is read.
std::string outcome(std::string_view contents) {
  const TempFolder folder;
  const auto file = File::open(folder.file("w.safetensors", contents));
  const auto index = read_safetensors_index(**file);
  if (index) return "ok";
  CHECK(index.error().first().kind == ErrorKind::integrity);
  CHECK(index.error().first().where.ends_with("w.safetensors"));
  return index.error().first().id;
}

constexpr std::string_view entry_a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

TEST_CASE("a safetensors file gives its tensors with their places in the file") {
  const std::string header =
      concat("{", entry_a, R"(,"b":{"data_offsets":[8,9],"shape":[],"dtype":"BOOL"},"__metadata__":{"format":"pt"},
      "empty":{"dtype":"I64","shape":[0,9223372036854775807],"data_offsets":[9,9]}}   )");
  const TempFolder folder;
  const auto file = File::open(folder.file("w", with_length(header, "012345678")));
  const auto index = read_safetensors_index(**file);
  REQUIRE(index.ok());
  CHECK(index->size() == 3);
  CHECK(index->at("b").offset == 8 + static_cast<int64_t>(header.size()) + 8);
  CHECK(index->at("b").dtype == DType::boolean);
  CHECK(index->at("a").shape == std::vector<int64_t>{2});
  CHECK(index->at("empty").bytes == 0);
  CHECK(outcome(with_length("{}", "")) == "ok");
}

TEST_CASE("hostile safetensors headers are refused, each with its own error") {
  auto with_a = [](std::string_view entry, std::string_view data = "01234567") {
    return outcome(with_length(concat(R"({"a":)", entry, "}"), data));
  };
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})") == "ok");  // the control

  // Lengths.
  CHECK(outcome("") == "E621");
  CHECK(outcome("1234567") == "E621");
  CHECK(outcome(std::string("\xff\0\0\0\0\0\0\0{}", 10)) == "E621");
  CHECK(outcome(std::string("\0\0\0\0\0\0\0\x80{}", 10)) == "E621");
  CHECK(outcome(std::string(8, '\0')) == "E623");
  // Not the JSON that the format wants.
  CHECK(outcome(with_length(" {}", "")) == "E623");
  CHECK(outcome(with_length("[]", "")) == "E623");
  CHECK(outcome(with_length("{} x", "")) == "E623");
  CHECK(outcome(with_length("{}{}", "")) == "E623");
  // Padding is blanks; a NUL would hide what follows it.
  CHECK(outcome(with_length(std::string("{}\0", 3), "")) == "E623");
  CHECK(outcome(with_length(std::string("{}\0 {\"a\":1}", 12), "")) == "E623");
  CHECK(outcome(with_length("{}\n", "")) == "E623");
  CHECK(outcome(with_length("{", "")) == "E623");
  CHECK(outcome(with_length("{\"\xff\":{}}", "")) == "E623");
  CHECK(outcome(with_length("{\"a\":1}", "")) == "E623");
  CHECK(outcome(with_length("{\"a\":[[[[]]]]}", "")) == "E623");
  CHECK(outcome(with_length(concat("{\"a\":", std::string(100'000, '['), "}"), "")) == "E623");
  CHECK(with_a(R"({"dtype":"F32","shape":[2]})") == "E623");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})") == "E623");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})") == "E623");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})") == "E623");
  CHECK(with_a(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})") == "E623");
  CHECK(with_a(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})") == "E623");
  CHECK(with_a(R"({"dtype":null,"shape":[2],"data_offsets":[0,8]})") == "E623");
  // Keys twice.
  CHECK(outcome(with_length(concat("{", entry_a, ",", entry_a, "}"), "01234567")) == "E624");
  CHECK(with_a(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})") == "E624");
  CHECK(outcome(with_length(R"({"__metadata__":{},"__metadata__":{}})", "")) == "E624");
  CHECK(outcome(with_length(R"({"__metadata__":{"a":"","a":""}})", "")) == "E624");
  // Types and numbers.
  CHECK(with_a(R"({"dtype":"U16","shape":[4],"data_offsets":[0,8]})") == "E625");
  CHECK(with_a(R"({"dtype":"f32","shape":[2],"data_offsets":[0,8]})") == "E625");
  CHECK(with_a(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})") == "E626");
  CHECK(with_a(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})") == "E626");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,0.8e1]})") == "E626");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[-0,8]})") == "E626");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]})") == "E626");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,99999999999999999999]})") == "E626");
  // Sizes.
  CHECK(with_a(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})") == "E627");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})") == "E627");
  CHECK(with_a(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})") == "E627");
  CHECK(with_a(R"({"dtype":"U4","shape":[15],"data_offsets":[0,8]})") == "ok");
  // Cover: past the end, trailing bytes, hole, overlap.
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "0123456") == "E628");
  CHECK(with_a(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", "012345678") == "E628");
  CHECK(with_a(R"({"dtype":"U8","shape":[7],"data_offsets":[1,8]})") == "E628");
  CHECK(with_a(R"({"dtype":"U8","shape":[8],"data_offsets":[9223372036854775799,9223372036854775807]})") == "E628");
  CHECK(outcome(with_length(concat("{", entry_a, R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[7,9]}})"),
                            "012345678")) == "E628");
  // Metadata.
  CHECK(outcome(with_length(R"({"__metadata__":{"a":1}})", "")) == "E629");
  CHECK(outcome(with_length(R"({"__metadata__":"a"})", "")) == "E629");
  CHECK(outcome(with_length(R"({"__metadata__":{"a":{}}})", "")) == "E629");
}

TEST_CASE("a header above 100 MB is refused before it is read") {
  const TempFolder folder;
  const std::string path = folder.file("w", std::string("\x01\xe1\xf5\x05\0\0\0\0", 8));  // 100 000 001
  REQUIRE(truncate(path.c_str(), 200'000'000) == 0);                                      // sparse
  const auto file = File::open(path);
  CHECK(read_safetensors_index(**file).error().first().id == "E622");
}

TEST_CASE("what is written is read back, and equal tensors give equal files") {
  const TempFolder folder;
  const std::vector<SafetensorsTensor> tensors = {{"big \"x\"\n\xc3\xa9", DType::f32, {3, 1'000'000}, 12'000'000},
                                                  {"nothing", DType::f16, {0}, 0},
                                                  {"nibbles", DType::i4, {3}, 2},
                                                  {"scalar", DType::boolean, {}, 1}};
  auto produce = [&](size_t tensor, int64_t offset, std::span<std::byte> out) -> Result<void> {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>((static_cast<size_t>(offset) + i) * 7 + tensor);
    return Ok{};
  };
  std::string first;
  for (const char* name : {"one", "two"}) {
    const auto written = write_safetensors(folder / name, tensors, produce);
    REQUIRE(written.ok());
    const auto file = File::open(folder / name);
    CHECK(written->bytes == (*file)->size());
    CHECK(written->sha256 == *sha256_hex(**file));
    if (first.empty()) first = written->sha256;
    CHECK(written->sha256 == first);
    const auto index = read_safetensors_index(**file);
    REQUIRE(index.ok());
    REQUIRE(index->size() == tensors.size());
    for (size_t t = 0; t < tensors.size(); ++t) {
      const SafetensorsEntry& entry = index->at(tensors[t].name);
      CHECK(entry.dtype == tensors[t].dtype);
      CHECK(entry.shape == tensors[t].shape);
      std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes)), expected(bytes.size());
      REQUIRE((*file)->read(entry.offset, bytes).ok());
      REQUIRE(produce(t, 0, expected).ok());
      CHECK(bytes == expected);
    }
    CHECK(index->begin()->second.offset % 64 == 0);
  }
}

TEST_CASE("tensors are produced in bounded, consecutive pieces") {
  const TempFolder folder;
  const std::vector<SafetensorsTensor> tensors = {{"a", DType::u8, {9'000'000}, 9'000'000}};
  int64_t next = 0;
  const auto written =
      write_safetensors(folder / "w", tensors, [&](size_t, int64_t offset, std::span<std::byte> out) -> Result<void> {
        CHECK(offset == next);
        CHECK(out.size() <= size_t{4} << 20);
        next += static_cast<int64_t>(out.size());
        return Ok{};
      });
  CHECK(written.ok());
  CHECK(next == 9'000'000);
}

TEST_CASE("a writer that fails leaves no file") {
  const TempFolder folder;
  const std::vector<SafetensorsTensor> twice = {{"a", DType::u8, {1}, 1}, {"a", DType::u8, {1}, 1}};
  auto produce = [](size_t, int64_t, std::span<std::byte>) -> Result<void> { return Ok{}; };
  CHECK(write_safetensors(folder / "w", twice, produce).error().first().id == "E624");
  const std::vector<SafetensorsTensor> wrong = {{"a", DType::f32, {1}, 1}};
  CHECK(write_safetensors(folder / "w", wrong, produce).error().first().id == "E627");
  const std::vector<SafetensorsTensor> good = {{"a", DType::u8, {1}, 1}};
  CHECK(!write_safetensors(folder / "w", good, [](size_t, int64_t, std::span<std::byte>) -> Result<void> {
           return make_error(ErrorKind::io, "E901", "no");
         }).ok());
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace rtx
