// Tensors in every form a model may store them in.

#include "frontend/tensor_data.h"

#include <cstring>

#include "frontend/onnx_types.h"
#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

using Type = proto::TensorProto;

Result<Model> read_with(const proto::TensorProto& tensor) { return read_proto(model_with(tensor)); }

// The bytes of "w" as read, in hex; the error if it was refused.
std::string stored(const proto::TensorProto& tensor) {
  const TempFolder folder;
  const Result<Model> model = read_model(folder.file("m.onnx", model_with(tensor).SerializeAsString()));
  if (!model) return outcome(model);
  const Result<Tensor> data = load(model->graph.initializers.at(0).entry);
  REQUIRE(data.ok());
  std::string hex;
  for (std::byte byte : data->bytes) {
    const char* digits = "0123456789abcdef";
    hex += digits[static_cast<int>(byte) >> 4];
    hex += digits[static_cast<int>(byte) & 15];
  }
  return hex;
}

TEST_CASE("raw and typed storage of a type give the same bytes") {
  proto::TensorProto raw = tensor_proto(), typed = tensor_proto();
  raw.set_raw_data(float_bytes({1, -2, 0.5, 8}));
  for (float value : {1.0f, -2.0f, 0.5f, 8.0f}) typed.add_float_data(value);
  CHECK(stored(raw) == "0000803f000000c00000003f00000041");
  CHECK(stored(typed) == stored(raw));

  struct Case {
    int type;
    std::vector<int32_t> values;
    std::string hex;
  };
  const Case small[] = {{Type::INT8, {-1, 2, -128, 127}, "ff02807f"},
                        {Type::UINT8, {255, 0, 1, 128}, "ff000180"},
                        {Type::INT16, {-1, 2, 3, 4}, "ffff020003000400"},
                        {Type::BOOL, {0, 1, 1, 0}, "00010100"},
                        {Type::FLOAT16, {0x3c00, 0, 1, 2}, "003c000001000200"},
                        {Type::BFLOAT16, {0x3f80, 0, 1, 2}, "803f000001000200"},
                        {Type::FLOAT8E4M3FN, {0x38, 1, 2, 255}, "380102ff"},
                        {Type::FLOAT8E5M2, {0x3c, 1, 2, 3}, "3c010203"},
                        {Type::UINT4, {0x21, 0x43}, "2143"},
                        {Type::INT4, {0x21, 0x9f}, "219f"},
                        {Type::INT32, {-1, 2, 3, 4}, "ffffffff020000000300000004000000"}};
  for (const Case& c : small) {
    CAPTURE(c.type);
    proto::TensorProto tensor = tensor_proto(c.type);
    for (int32_t value : c.values) tensor.add_int32_data(value);
    CHECK(stored(tensor) == c.hex);
    proto::TensorProto bytes = tensor_proto(c.type);
    for (size_t i = 0; i < c.hex.size(); i += 2)
      bytes.mutable_raw_data()->push_back(static_cast<char>(std::stoi(c.hex.substr(i, 2), nullptr, 16)));
    CHECK(stored(bytes) == c.hex);
  }

  proto::TensorProto ints = tensor_proto(Type::INT64), doubles = tensor_proto(Type::DOUBLE);
  for (int i = 0; i < 4; ++i) ints.add_int64_data(-1), doubles.add_double_data(1);
  CHECK(stored(ints) == std::string(64, 'f'));
  CHECK(stored(doubles) == "000000000000f03f000000000000f03f000000000000f03f000000000000f03f");
}

TEST_CASE("an odd number of 4-bit elements takes half a byte more") {
  proto::TensorProto tensor = tensor_proto(Type::INT4);
  tensor.set_dims(0, 3);
  tensor.set_raw_data("\x21\x03");
  CHECK(stored(tensor) == "2103");
  tensor.set_raw_data("\x21\xf3");
  CHECK(stored(tensor) == "E305 invalid");
  tensor.set_raw_data("\x21\x03\x01");
  CHECK(stored(tensor) == "E303 invalid");
}

TEST_CASE("rank 0 has one element, and a zero dim none") {
  proto::TensorProto tensor = tensor_proto();
  tensor.clear_dims();
  tensor.set_raw_data(float_bytes({1}));
  CHECK(stored(tensor) == "0000803f");
  tensor.add_dims(0);
  CHECK(stored(tensor) == "E303 invalid");
  tensor.clear_raw_data();
  CHECK(stored(tensor) == "");
}

TEST_CASE("large raw data stays in the file, small data is read") {
  proto::TensorProto tensor = tensor_proto();
  tensor.set_dims(0, 100'000);
  tensor.set_raw_data(std::string(400'000, '\x01'));
  const TempFolder folder;
  const Result<Model> model = read_model(folder.file("m.onnx", model_with(tensor).SerializeAsString()));
  REQUIRE(model.ok());
  const WeightEntry& entry = model->graph.initializers[0].entry;
  CHECK(entry.file != nullptr);
  CHECK(entry.memory == nullptr);
  const Result<Tensor> data = load(entry);
  REQUIRE(data.ok());
  CHECK(data->bytes == std::vector<std::byte>(400'000, std::byte{1}));
}

// The entry of "w" in a model whose only initializer is this message.
Result<Model> read_wire(const TempFolder& folder, std::string_view tensor) {
  return read_model(folder.file("m.onnx", with_graph_field(message(graph_initializer, tensor))));
}

TEST_CASE("packed and single entries of a field are one list") {
  constexpr int dims = 1, data_type = 2, float_data = 4, int64_data = 7, name = 8;
  const TempFolder folder;
  const std::string numbers = concat(tag(int64_data, 0), varint(300), message(int64_data, varint(1) + varint(~0ull)),
                                     message(int64_data, ""), message(name, "w"), tag(int64_data, 0), varint(7));
  const std::string head = concat(tag(dims, 0), varint(4), tag(data_type, 0), varint(Type::INT64));
  const Result<Model> model = read_wire(folder, head + numbers);
  REQUIRE(model.ok());
  const Result<Tensor> data = load(model->graph.initializers[0].entry);
  REQUIRE(data.ok());
  for (const auto& [i, value] : {std::pair(0, 300), {1, 1}, {2, -1}, {3, 7}}) CHECK(data->i64(i) == value);
  CHECK(outcome(read_wire(folder, head + numbers + tag(int64_data, 0) + varint(7))) == "E303 invalid");

  const std::string floats = float_bytes({1, 2, 3, 4});
  const Result<Model> split =
      read_wire(folder, concat(tag(dims, 0), varint(4), tag(data_type, 0), varint(Type::FLOAT), message(name, "w"),
                               message(float_data, floats.substr(0, 8)), tag(float_data, 5), floats.substr(8, 4),
                               message(float_data, floats.substr(12))));
  REQUIRE(split.ok());
  for (int i = 0; i < 4; ++i) CHECK(load(split->graph.initializers[0].entry)->f64(i) == i + 1);
}

TEST_CASE("large typed data stays in the file and is decoded where it is read") {
  constexpr int count = 50'000;
  const TempFolder folder;
  proto::TensorProto tensor = tensor_proto(Type::INT64);
  tensor.set_dims(0, count);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i % 3 == 0 ? -i : i * i);
  for (int64_t value : values) tensor.add_int64_data(value);
  const Result<Model> model = read_model(folder.file("m.onnx", model_with(tensor).SerializeAsString()));
  REQUIRE(model.ok());
  const WeightEntry& entry = model->graph.initializers[0].entry;
  CHECK(entry.memory == nullptr);
  REQUIRE(entry.file != nullptr);
  REQUIRE(entry.bytes == count * 8);
  const std::byte* expected = reinterpret_cast<const std::byte*>(values.data());
  for (const auto& [offset, size] : {std::pair(0, count * 8),
                                     {1, 13},
                                     {131'071, 3},
                                     {131'072, 8},
                                     {262'140, 100'000},
                                     {count * 8 - 5, 5},
                                     {count * 8, 0}}) {
    CAPTURE(offset);
    std::vector<std::byte> part(static_cast<size_t>(size));
    REQUIRE(entry.file->read(entry.offset + offset, part).ok());
    CHECK(std::equal(part.begin(), part.end(), expected + offset));
  }
  std::vector<std::byte> beyond(2);
  CHECK(!entry.file->read(entry.offset + count * 8 - 1, beyond).ok());

  // A file that lost its data since is noticed.
  folder.file("m.onnx", std::string(1 << 20, '\xff'));
  std::vector<std::byte> all(static_cast<size_t>(entry.bytes));
  const Result<void> changed = entry.file->read(entry.offset, all);
  REQUIRE(!changed.ok());
  CHECK(changed.error().first().id == "E902");
}

TEST_CASE("a raw_data of the wrong size is refused with both sizes") {
  for (size_t size : {0, 15, 17, 32}) {
    CAPTURE(size);
    proto::TensorProto tensor = tensor_proto();
    tensor.set_raw_data(std::string(size, '\0'));
    const Result<Model> result = read_with(tensor);
    CHECK(outcome(result) == "E303 invalid");
    CHECK(mentions(result, "initializer 'w'"));
    CHECK(mentions(result, "16 bytes"));
    CHECK(mentions(result, concat("got: ", size, " bytes")));
  }
  CHECK(stored(tensor_proto()) == "E303 invalid");  // no data at all
  proto::TensorProto three = tensor_proto();
  for (int i = 0; i < 3; ++i) three.add_float_data(1);
  CHECK(stored(three) == "E303 invalid");
}

TEST_CASE("negative, overflowing and huge dims are refused") {
  const auto with_dims = [](std::initializer_list<int64_t> dims) {
    proto::TensorProto tensor = tensor_proto();
    tensor.clear_dims();
    for (int64_t dim : dims) tensor.add_dims(dim);
    tensor.set_raw_data("");
    return stored(tensor);
  };
  CHECK(with_dims({-1}) == "E301 invalid");
  CHECK(with_dims({-2, -2}) == "E301 invalid");
  CHECK(with_dims({INT64_MIN}) == "E301 invalid");
  CHECK(with_dims({int64_t{1} << 32, int64_t{1} << 32}) == "E302 invalid");  // wraps to 0
  CHECK(with_dims({int64_t{1} << 31, int64_t{1} << 30}) == "E302 invalid");  // elements fit, bits do not
  CHECK(with_dims({(int64_t{1} << 40) + 1}) == "E504 limit");
  CHECK(with_dims({int64_t{1} << 20, int64_t{1} << 20}) == "E504 limit");  // 4 TiB
  CHECK(with_dims({int64_t{1} << 40, 0, int64_t{1} << 40}) == "");
}

TEST_CASE("the declared shape of an input is held to the same rules") {
  const auto with_input = [](std::initializer_list<int64_t> dims) {
    proto::ModelProto model = relu_model();
    *model.mutable_graph()->mutable_input(0) = value_proto("x", dims);
    return outcome(read_proto(model));
  };
  CHECK(with_input({4}) == "ok");
  CHECK(with_input({-7}) == "E301 invalid");
  CHECK(with_input({-1, 4}) == "ok");  // an old way to say "unknown"
  CHECK(with_input({INT64_MAX}) == "E504 limit");
  CHECK(with_input({int64_t{1} << 40, int64_t{1} << 40}) == "E302 invalid");
  CHECK(with_input({int64_t{1} << 20, int64_t{1} << 20}) == "E504 limit");
}

TEST_CASE("data in two fields, in the wrong field or of no type is refused") {
  proto::TensorProto both = tensor_proto();
  both.set_raw_data(float_bytes({1, 2, 3, 4}));
  both.add_float_data(1);
  const Result<Model> result = read_with(both);
  CHECK(outcome(result) == "E304 invalid");
  CHECK(mentions(result, "both raw_data and float_data"));

  proto::TensorProto wrong = tensor_proto();
  for (int i = 0; i < 4; ++i) wrong.add_int64_data(1);
  CHECK(stored(wrong) == "E304 invalid");

  proto::TensorProto segment = tensor_proto();
  segment.set_raw_data(float_bytes({1, 2, 3, 4}));
  segment.mutable_segment()->set_begin(0);
  CHECK(stored(segment) == "E304 invalid");

  for (int type : {0, 99, -3}) {
    CAPTURE(type);
    proto::TensorProto tensor = tensor_proto(type);
    tensor.set_raw_data(float_bytes({1, 2, 3, 4}));
    CHECK(stored(tensor) == "E305 invalid");
  }
}

TEST_CASE("elements out of the range of their type are refused") {
  struct Case {
    int type;
    int32_t value;
  };
  for (const Case& c : {Case{Type::INT8, 300}, Case{Type::UINT8, -1}, Case{Type::BOOL, 2}, Case{Type::FLOAT16, 0x10000},
                        Case{Type::INT16, 40000}}) {
    CAPTURE(c.type);
    proto::TensorProto tensor = tensor_proto(c.type);
    for (int i = 0; i < 4; ++i) tensor.add_int32_data(c.value);
    CHECK(stored(tensor) == "E305 invalid");
  }
  proto::TensorProto raw_bool = tensor_proto(Type::BOOL);
  raw_bool.set_raw_data(std::string("\0\1\2\0", 4));
  CHECK(stored(raw_bool) == "E305 invalid");
}

TEST_CASE("types that the IR does not have are kept by name") {
  proto::TensorProto tensor = tensor_proto(Type::UINT32);
  for (uint64_t value : {1u, 2u, 3u, 4294967295u}) tensor.add_uint64_data(value);
  Result<Model> model = read_with(tensor);
  REQUIRE(model.ok());
  CHECK(model->graph.initializers[0].unsupported == "uint32");
  CHECK(load(model->graph.initializers[0].entry)->i64(3) == 4294967295);  // widened

  tensor = tensor_proto(Type::UINT64);
  tensor.set_raw_data(std::string(32, '\xff'));  // does not fit i64
  model = read_with(tensor);
  REQUIRE(model.ok());
  CHECK(model->graph.initializers[0].unsupported == "uint64");
  CHECK(model->graph.initializers[0].entry.memory == nullptr);

  tensor = tensor_proto(Type::STRING);
  for (int i = 0; i < 4; ++i) tensor.add_string_data("s");
  model = read_with(tensor);
  REQUIRE(model.ok());
  CHECK(model->graph.initializers[0].unsupported == "string");
  CHECK(model->graph.initializers[0].entry.shape == std::vector<int64_t>{4});
  tensor.add_string_data("one too many");
  CHECK(stored(tensor) == "E303 invalid");
}

TEST_CASE("a sparse initializer becomes dense") {
  proto::ModelProto model = empty_model();
  proto::GraphProto& graph = *model.mutable_graph();
  add(graph, node_proto("Add", {"x", "w"}, {"y"}));
  proto::SparseTensorProto& sparse = *graph.add_sparse_initializer();
  sparse.add_dims(4);
  *sparse.mutable_values() = tensor_proto();
  sparse.mutable_values()->set_dims(0, 2);
  sparse.mutable_values()->set_raw_data(float_bytes({5, 7}));
  *sparse.mutable_indices() = tensor_proto(Type::INT64);
  sparse.mutable_indices()->set_dims(0, 2);
  const auto with_indices = [&](std::initializer_list<int64_t> indices) {
    sparse.mutable_indices()->clear_int64_data();
    for (int64_t index : indices) sparse.mutable_indices()->add_int64_data(index);
    return read_proto(model);
  };
  const Result<Model> read = with_indices({1, 3});
  REQUIRE(read.ok());
  const Result<Tensor> dense = load(read->graph.initializers[0].entry);
  CHECK(dense->f64(0) == 0);
  CHECK(dense->f64(1) == 5);
  CHECK(dense->f64(3) == 7);

  CHECK(outcome(with_indices({1, 4})) == "E306 invalid");
  CHECK(outcome(with_indices({-1, 3})) == "E306 invalid");
  CHECK(outcome(with_indices({3, 1})) == "E306 invalid");
  CHECK(outcome(with_indices({1, 1})) == "E306 invalid");
  CHECK(outcome(with_indices({1, 2, 3})) == "E306 invalid");
  sparse.set_dims(0, int64_t{1} << 30);
  CHECK(outcome(with_indices({1, 3})) == "E306 limit");
  // The budget holds for all of them together.
  sparse.set_dims(0, int64_t{1} << 24);
  for (int i = 0; i < 4; ++i) {
    proto::SparseTensorProto& more = *graph.add_sparse_initializer();
    more = graph.sparse_initializer(0);
    more.mutable_values()->set_name(concat("more", i));
  }
  CHECK(outcome(read_proto(model)) == "E306 limit");
}

}  // namespace
}  // namespace rtx::onnx
