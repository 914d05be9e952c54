#include "base/npy.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <cstring>

#include "base/text.h"
#include "tests/temp_folder.h"

namespace rtx {
namespace {

std::string npy(std::string_view dict, std::string_view data, char version = 1) {
  std::string file = concat("\x93NUMPY", version, '\0');
  const std::string header = concat(dict, "   \n");
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return concat(file, header, data);
}

std::string dict(std::string_view descr, std::string_view shape, std::string_view order = "False") {
  return concat("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }");
}

Result<NpyArray> read(std::string_view contents, std::optional<DType> as = {}) {
  const TempFolder folder;
  const auto file = File::open(folder.file("a.npy", contents));
  return read_npy(**file, as);
}

std::string outcome(const auto& result) { return result.ok() ? "ok" : result.error().first().id; }

NpyArray make_array(DType dtype, std::vector<int64_t> shape) {
  NpyArray array{dtype, std::move(shape), {}};
  int64_t elements = 1;
  for (const int64_t dim : array.shape) elements *= dim;
  array.bytes.resize(static_cast<size_t>(*packed_bytes(dtype, elements)));
  for (int64_t i = 0; i < elements; ++i)
    store_i64(dtype, array.bytes.data(), i, dtype == DType::boolean ? i % 2 : i % 8);
  return array;
}

bool equal(const NpyArray& a, const NpyArray& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

void put(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

struct ZipMember {
  std::string name;
  std::string data;
  int method = 0;
  int64_t claimed_bytes = -1;  // -1: the true size
  uint16_t flags = 0;
};

std::string deflate_raw(const std::string& data) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(compressBound(data.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A zip file as Python's zipfile makes it for numpy: sizes in the zip64 extra field of the local header.
std::string zip(const std::vector<ZipMember>& members, uint16_t count_lie = 0) {
  std::string out, directory;
  for (const ZipMember& m : members) {
    const std::string stored = m.method == 8 ? deflate_raw(m.data) : m.data;
    const uint64_t bytes = m.claimed_bytes < 0 ? m.data.size() : static_cast<uint64_t>(m.claimed_bytes);
    const uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(m.data.data()), static_cast<uInt>(m.data.size()));
    const uint64_t offset = out.size();
    std::string common;
    put(common, 45, 2), put(common, m.flags, 2), put(common, static_cast<uint64_t>(m.method), 2),
        put(common, 0x210000, 4), put(common, crc, 4);
    put(out, 0x04034b50, 4);
    out += common;
    put(out, 0xFFFFFFFF, 4), put(out, 0xFFFFFFFF, 4), put(out, m.name.size(), 2), put(out, 20, 2);
    out += m.name;
    put(out, 1, 2), put(out, 16, 2), put(out, bytes, 8), put(out, stored.size(), 8);
    out += stored;
    put(directory, 0x02014b50, 4), put(directory, 45, 2);
    directory += common;
    put(directory, stored.size(), 4), put(directory, bytes, 4), put(directory, m.name.size(), 2);
    put(directory, 0, 2 + 2 + 2 + 2), put(directory, 0, 4), put(directory, offset, 4);
    directory += m.name;
  }
  const uint64_t start = out.size();
  out += directory;
  put(out, 0x06054b50, 4), put(out, 0, 4);
  put(out, members.size() + count_lie, 2), put(out, members.size() + count_lie, 2), put(out, directory.size(), 4),
      put(out, start, 4), put(out, 0, 2);
  return out;
}

// Reads array "a" of a .npz with these contents.
std::string npz_outcome(const std::string& contents) {
  const TempFolder folder;
  const auto file = File::open(folder.file("a.npz", contents));
  const auto npz = NpzFile::open(*file);
  if (!npz) return npz.error().first().id;
  return outcome((*npz)->read("a"));
}

TEST_CASE("arrays in numpy's own files are read") {
  const std::string data("\0\0\x80\x3f\0\0\0\x40", 8);
  for (const char version : {1, 2, 3}) {
    const auto array = read(npy(dict("<f4", "(2,)"), data, version));
    REQUIRE(array.ok());
    CHECK(array->dtype == DType::f32);
    CHECK(array->shape == std::vector<int64_t>{2});
    CHECK(load_f64(DType::f32, array->bytes.data(), 1) == 2);
  }
  CHECK(read(npy(dict("|b1", "()"), "\1"))->dtype == DType::boolean);
  CHECK(read(npy(dict("<i8", "(0, 3)"), ""))->shape == std::vector<int64_t>{0, 3});
  CHECK(read(npy("{\"shape\":(2,),\"descr\":\"f4\",\"fortran_order\":False}", data)).ok());
}

TEST_CASE("a column-major array is turned into row-major order") {
  // [[0, 1, 2], [3, 4, 5]] in Fortran order.
  const auto array = read(npy(dict("|i1", "(2, 3)", "True"), std::string("\0\3\1\4\2\5", 6)));
  REQUIRE(array.ok());
  for (int64_t i = 0; i < 6; ++i) CHECK(load_i64(DType::i8, array->bytes.data(), i) == i);
  // 24 elements of a [2, 3, 4] array, each holding its row-major index.
  std::string data;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) put(data, static_cast<uint64_t>(i * 12 + j * 4 + k), 2);
    }
  }
  const auto cube = read(npy(dict("<i2", "(2, 3, 4)", "True"), data));
  REQUIRE(cube.ok());
  for (int64_t i = 0; i < 24; ++i) CHECK(load_i64(DType::i16, cube->bytes.data(), i) == i);
}

TEST_CASE("types that numpy lacks are read when they are named") {
  const std::string raw2("\x80\x3f\0\x40", 4);
  CHECK(outcome(read(npy(dict("<V2", "(2,)"), raw2))) == "E642");
  const auto array = read(npy(dict("<V2", "(2,)"), raw2), DType::bf16);
  REQUIRE(array.ok());
  CHECK(load_f64(DType::bf16, array->bytes.data(), 1) == 2);
  CHECK(read(npy(dict("<u2", "(2,)"), raw2), DType::bf16).ok());
  CHECK(read(npy(dict("<f1", "(2,)"), "ab"), DType::f8e5m2).ok());
  CHECK(read(npy(dict("<V1", "(2,)"), "ab"), DType::f8e4m3).ok());
  const auto nibbles = read(npy(dict("|i1", "(3,)"), "\x01\xff\x07"), DType::i4);
  REQUIRE(nibbles.ok());
  CHECK(nibbles->bytes == std::vector{std::byte{0xF1}, std::byte{0x07}});
  CHECK(outcome(read(npy(dict("|i1", "(3,)"), "\x01\x08\x07"), DType::i4)) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "(1,)"), "0123"), DType::f16)) == "E642");
}

TEST_CASE("types that rtx does not read are refused by name") {
  for (const auto& [descr, name] : std::vector<std::pair<std::string, std::string>>{{"<u2", "uint16"},
                                                                                    {"<u4", "uint32"},
                                                                                    {"<u8", "uint64"},
                                                                                    {"<c8", "complex64"},
                                                                                    {"<U5", "strings"},
                                                                                    {"|O", "Python objects"}}) {
    const auto array = read(npy(dict(descr, "(1,)"), "0123456789012345"));
    REQUIRE(!array.ok());
    CHECK(array.error().first().id == "E642");
    CHECK(array.error().first().kind == ErrorKind::unsupported);
    CHECK(array.error().first().message.find(name) != std::string::npos);
  }
  CHECK(outcome(read(npy(dict(">f4", "(1,)"), "0123"))) == "E642");
  CHECK(outcome(read(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", "0123"))) == "E642");
}

TEST_CASE("damaged and hostile .npy files are refused") {
  const std::string good = npy(dict("<f4", "(2,)"), "01234567");
  REQUIRE(read(good).ok());
  for (size_t bytes = 0; bytes < good.size(); ++bytes) CHECK(!read(good.substr(0, bytes)).ok());
  CHECK(outcome(read(good + "x")) == "E643");
  CHECK(outcome(read("PK\3\4 not an array")) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "(2,)"), "01234567", 4))) == "E642");
  CHECK(outcome(read(npy(dict("<f4", "(3,)"), "01234567"))) == "E643");
  CHECK(outcome(read(npy(dict("<f4", "(-2,)"), "01234567"))) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "(4294967296, 4294967296)"), ""))) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "(99999999999999999999,)"), ""))) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "(1e3,)"), ""))) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "2"), "01234567"))) == "E641");
  CHECK(outcome(read(npy(dict("<f4", "(2,)", "None"), "01234567"))) == "E641");
  CHECK(outcome(read(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "01234567"))) ==
        "E641");
  CHECK(outcome(read(npy("{'descr': '<f4', 'fortran_order': False}", "01234567"))) == "E641");
  CHECK(outcome(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "01234567"))) == "E641");
  CHECK(outcome(read(npy("__import__('os')", "01234567"))) == "E641");
  CHECK(outcome(read(npy(dict("|b1", "(1,)"), "\2"))) == "E641");
  std::string rank = "(";
  for (int i = 0; i < 65; ++i) rank += "1,";
  CHECK(outcome(read(npy(dict("|i1", rank + ")"), "x"))) == "E641");
  const TempFolder folder;
  const auto file = File::open(folder.file("a.npy", good));
  CHECK(outcome(read_npy(**file, {}, NpyLimits{.array_bytes = 7})) == "E506");
}

TEST_CASE("arrays of every type are read back from .npy and .npz as they were written") {
  const TempFolder folder;
  std::vector<NpyArray> arrays;
  for (int i = 0; i < dtype_count; ++i) arrays.push_back(make_array(static_cast<DType>(i), {i % 3 + 1, 5}));
  arrays.push_back(make_array(DType::f32, {}));
  arrays.push_back(make_array(DType::i64, {0, 4}));
  std::vector<std::pair<std::string, const NpyArray*>> named;
  for (size_t i = 0; i < arrays.size(); ++i) {
    REQUIRE(write_npy(folder / "a.npy", arrays[i]).ok());
    const auto file = File::open(folder / "a.npy");
    const auto array = read_npy(**file, arrays[i].dtype);
    REQUIRE(array.ok());
    CHECK(equal(*array, arrays[i]));
    named.emplace_back(concat("folder/array \xc3\xa9 ", i), &arrays[i]);
  }
  REQUIRE(write_npz(folder / "a.npz", named).ok());
  REQUIRE(write_npz(folder / "b.npz", named).ok());
  CHECK(*read_text_file(folder / "a.npz", 1 << 20) == *read_text_file(folder / "b.npz", 1 << 20));
  const auto npz = NpzFile::open(*File::open(folder / "a.npz"));
  REQUIRE(npz.ok());
  CHECK((*npz)->names().size() == arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto array = (*npz)->read(named[i].first, arrays[i].dtype);
    REQUIRE(array.ok());
    CHECK(equal(*array, arrays[i]));
  }
  CHECK(outcome((*npz)->read("missing")) == "E644");
}

TEST_CASE("stored and deflated .npz files are read") {
  const std::string member = npy(dict("|i1", "(100000,)"), std::string(100'000, 'x'));
  CHECK(npz_outcome(zip({{"a.npy", member, 0}})) == "ok");
  CHECK(npz_outcome(zip({{"a.npy", member, 8}})) == "ok");
  const std::string noise = [] {
    std::string text;
    uint32_t state = 1;
    for (int i = 0; i < 300'000; ++i) text += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return npy(dict("|i1", "(300000,)"), text);
  }();
  CHECK(npz_outcome(zip({{"b.npy", member, 8}, {"a.npy", noise, 8}})) == "ok");
  CHECK(npz_outcome(zip({})) == "E644");  // readable, but without the array
}

TEST_CASE("damaged and hostile .npz files are refused") {
  const std::string member = npy(dict("<f4", "(2,)"), "01234567");
  const std::string good = zip({{"a.npy", member, 8}});
  REQUIRE(npz_outcome(good) == "ok");
  for (size_t bytes = 0; bytes < good.size(); ++bytes) CHECK(npz_outcome(good.substr(0, bytes)) != "ok");
  CHECK(npz_outcome("") == "E644");
  CHECK(npz_outcome("x" + good) == "E644");
  CHECK(npz_outcome(zip({{"a.npy", member, 0}}, 1)) == "E644");
  CHECK(npz_outcome(zip({{"a.npy", member}, {"a.npy", member}})) == "E644");
  CHECK(npz_outcome(zip({{"a.txt", member}})) == "E644");
  CHECK(npz_outcome(zip({{"a\xff.npy", member}})) == "E644");
  CHECK(npz_outcome(zip({{"a.npy", member, 0, 1 << 30}})) == "E644");
  CHECK(npz_outcome(zip({{"a.npy", member, 8, int64_t{1} << 31}})) == "E644");  // no deflate stream grows so much
  CHECK(npz_outcome(zip({{"a.npy", member, 8, static_cast<int64_t>(member.size()) + 1}})) == "E643");
  CHECK(npz_outcome(zip(
            {{"a.npy", npy(dict("<f4", "(3,)"), "01234567"), 8, static_cast<int64_t>(member.size()) + 4}})) == "E644");
  CHECK(npz_outcome(zip({{"a.npy", member + "trailing", 8, static_cast<int64_t>(member.size())}})) == "E644");
  CHECK(npz_outcome(zip({{"a.npy", member, 12}})) == "E646");
  CHECK(npz_outcome(zip({{"a.npy", member, 0, -1, 1}})) == "E646");
  std::string flipped = zip({{"a.npy", member, 0}});
  flipped[flipped.find("01234567")] ^= 1;
  CHECK(npz_outcome(flipped) == "E645");
  // No single damaged byte crashes the reader; whether it is noticed depends on the byte (a time stamp is not).
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    npz_outcome(damaged);
  }
}

}  // namespace
}  // namespace rtx
