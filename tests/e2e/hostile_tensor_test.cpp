// Hostile tensors through rtx-import: shapes, sizes, storage, sparse tensors, external data.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "tests/e2e/import_site.h"

namespace rtx::onnx {
namespace {

proto::TensorProto with_dims(std::initializer_list<int64_t> dims, std::string raw = {}) {
  proto::TensorProto tensor = tensor_proto();
  tensor.clear_dims();
  for (int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(std::move(raw));
  return tensor;
}

proto::ModelProto with_input(std::initializer_list<int64_t> dims) {
  proto::ModelProto model = relu_model();
  *model.mutable_graph()->mutable_input(0) = value_proto("x", dims);
  return model;
}

TEST_CASE("dims that are negative, too large or overflow are refused") {
  const Site site;
  constexpr int64_t two = 1;
  const int64_t most = INT64_MAX;
  check_model(site, model_with(with_dims({-1})), 3, "E301", "[-1]");
  check_model(site, model_with(with_dims({4, INT64_MIN})), 3, "E301", "negative dim");
  check_model(site, with_input({-7}), 3, "E301", "[-7]");
  check_model(site, model_with(with_dims({most})), 5, "E504", "--max-dim");
  check_model(site, with_input({most}), 5, "E504", "--max-dim");
  check_model(site, model_with(with_dims({two << 32, two << 32})), 3, "E302", "overflows");
  check_model(site, with_input({two << 32, two << 32}), 3, "E302", "overflows");
  check_model(site, model_with(with_dims({two << 40, two << 24})), 3, "E302", "overflows");
  check_model(site, model_with(with_dims({two << 62, 4})), 5, "E504", "--max-dim");
  check_model(site, model_with(with_dims({two << 35})), 5, "E504", "--max-tensor-bytes");
  check_model(site, model_with(with_dims({1, 1, 1, 1, 1, 1, 1, 1, 4})), 5, "E504", "--max-rank");
}

TEST_CASE("data of another size than its shape is refused with both sizes") {
  const Site site;
  for (size_t size : {0, 15, 17, 32}) {
    CAPTURE(size);
    check_model(site, model_with(with_dims({4}, std::string(size, '\0'))), 3, "E303", "expected: 16 bytes");
    check_model(site, model_with(with_dims({4}, std::string(size, '\0'))), 3, "E303", concat("got: ", size, " bytes"));
  }
  check_model(site, model_with(with_dims({0}, "1234")), 3, "E303", "expected: 0 bytes");
  check_model(site, model_with(tensor_proto()), 3, "E303", "no data");
  proto::TensorProto typed = tensor_proto();
  for (int i = 0; i < 3; ++i) typed.add_float_data(1);
  check_model(site, model_with(typed), 3, "E303", "expected: 4 elements");
}

TEST_CASE("data in the wrong place or of a wrong type is refused") {
  const Site site;
  proto::TensorProto tensor = weight();
  for (int i = 0; i < 4; ++i) tensor.add_float_data(1);
  check_model(site, model_with(tensor), 3, "E304", "both raw_data and float_data");
  tensor = tensor_proto();
  for (int i = 0; i < 4; ++i) tensor.add_int64_data(1);
  check_model(site, model_with(tensor), 3, "E304", "int64_data");
  tensor = weight();
  tensor.set_data_type(proto::TensorProto::STRING);
  check_model(site, model_with(tensor), 3, "E304", "strings");
  tensor = weight();
  tensor.mutable_segment()->set_begin(0);
  check_model(site, model_with(tensor), 3, "E304", "segment");
  for (int type : {0, 99, -1, INT32_MAX}) {
    CAPTURE(type);
    tensor = weight();
    tensor.set_data_type(type);
    check_model(site, model_with(tensor), 3, "E305", concat(type));
    proto::ModelProto model = relu_model();
    *model.mutable_graph()->mutable_input(0) = value_proto("x", {4}, type);
    check_model(site, model, 3, "E305", "input 'x'");
  }
  tensor = weight();
  tensor.clear_data_type();
  check_model(site, model_with(tensor), 3, "E305", "missing");

  using namespace std::string_literals;
  struct Case {
    int type;
    std::string raw;
    const char* words;
  };
  for (const Case& c : {Case{proto::TensorProto::INT4, "\x11\xf1"s, "high nibble"},
                        Case{proto::TensorProto::BOOL, "\x01\x02\x00"s, "bool element 1 is 2"}}) {
    tensor = with_dims({3}, c.raw);
    tensor.set_data_type(c.type);
    check_model(site, model_with(tensor), 3, "E305", c.words);
  }
  for (const auto& [type, value] : {std::pair(proto::TensorProto::INT8, 128),
                                    {proto::TensorProto::UINT8, -1},
                                    {proto::TensorProto::FLOAT16, 65536},
                                    {proto::TensorProto::BFLOAT16, -1},
                                    {proto::TensorProto::BOOL, 2},
                                    {proto::TensorProto::INT16, 32768}}) {
    tensor = tensor_proto(type);
    for (int i = 0; i < 4; ++i) tensor.add_int32_data(i == 3 ? value : 0);
    check_model(site, model_with(tensor), 3, "E305", "int32_data[3]");
  }
}

TEST_CASE("sparse tensors whose indices do not fit are refused") {
  const Site site;
  const auto sparse = [](std::initializer_list<int64_t> indices, int64_t size = 8) {
    proto::ModelProto model = relu_model();
    proto::SparseTensorProto& tensor = *model.mutable_graph()->add_sparse_initializer();
    tensor.add_dims(size);
    *tensor.mutable_values() = with_dims({2}, float_bytes({1, 2}));
    tensor.mutable_values()->set_name("s");
    tensor.mutable_indices()->set_data_type(proto::TensorProto::INT64);
    tensor.mutable_indices()->add_dims(static_cast<int64_t>(indices.size()));
    for (int64_t index : indices) tensor.mutable_indices()->add_int64_data(index);
    return model;
  };
  CHECK(site.accepts(sparse({0, 7})));
  check_model(site, sparse({0, 8}), 3, "E306", "index 8 is outside");
  check_model(site, sparse({-1, 7}), 3, "E306", "index -1 is outside");
  check_model(site, sparse({5, 2}), 3, "E306", "ascending");
  check_model(site, sparse({5, 5}), 3, "E306", "ascending");
  check_model(site, sparse({0, 1, 2}), 3, "E306", "for 2 values");
  check_model(site, sparse({0, 1}, -8), 3, "E306", "negative");
  check_model(site, sparse({0, 1}, int64_t{1} << 34), 5, "E306", "too large when dense");
}

TEST_CASE("locations that leave the folder of the model are refused, and the file is not read") {
  const Site site;
  fs::create_directory(site.folder / "o");
  site.folder.file("o/secret.bin", "SECRET-SECRET-SE");
  fs::create_directory(site.folder / "model/a");
  for (std::string_view location : {"../o/secret.bin", "a/../../o/secret.bin", "./../o/secret.bin", "/etc/passwd",
                                    "C:\\x", "a\\..\\..\\x", "C:/x", ".", "./", "a/..", ".."})
    check_model(site, model_with(external_weight(location, "0")), 3, "E311", "data");
  check_model(site, model_with(external_weight("", "0")), 3, "E311", "");
  check_model(site, model_with(external_weight("a/", "0")), 3, "E314", "not a regular file");
  check_model(site, model_with(external_weight("none.bin", "0")), 9, "E901", "none.bin");
}

TEST_CASE("symbolic links are refused with the option that allows them") {
  const Site site;
  fs::create_directory(site.folder / "store");
  fs::create_directory(site.folder / "model/real");
  site.folder.file("store/w.bin", float_bytes({1, 2, 3, 4}));
  site.folder.file("model/real/w.bin", float_bytes({1, 2, 3, 4}));
  fs::create_symlink("../store/w.bin", site.folder / "model/out.bin");
  fs::create_symlink("real/w.bin", site.folder / "model/in.bin");
  fs::create_symlink("real", site.folder / "model/linked");
  fs::create_symlink("nowhere", site.folder / "model/dangling.bin");
  fs::create_symlink("loop.bin", site.folder / "model/loop.bin");
  fs::create_symlink("/etc/passwd", site.folder / "model/absolute.bin");
  for (const char* location : {"out.bin", "in.bin", "linked/w.bin", "dangling.bin", "loop.bin", "absolute.bin"}) {
    CAPTURE(location);
    check_model(site, model_with(external_weight(location, "0")), 3, "E312", "--follow-symlinks-within DIR");
  }
  const auto follow = [&](const std::string& folder) {
    return std::vector<std::string>{"--follow-symlinks-within", folder};
  };
  const auto accepted = [&](const char* location, const std::string& folder) {
    return site.accepts(model_with(external_weight(location, "0")), follow(folder));
  };
  for (const char* location : {"in.bin", "linked/w.bin"}) CHECK(accepted(location, site.folder / "model"));
  CHECK(accepted("out.bin", site.folder.path()));
  CHECK(accepted("real/w.bin", site.folder.path()));
  check_model(site, model_with(external_weight("out.bin", "0")), 3, "E311", "leads outside",
              follow(site.folder / "model"));
  check_model(site, model_with(external_weight("absolute.bin", "0")), 3, "E311", "leads outside",
              follow(site.folder.path()));
  check_model(site, model_with(external_weight("../store/w.bin", "0")), 3, "E311", "", follow(site.folder.path()));
  check_model(site, model_with(external_weight("loop.bin", "0")), 3, "E312", "loop", follow(site.folder.path()));
  check_model(site, model_with(external_weight("in.bin", "0")), 3, "E311", "outside", follow(site.folder / "store"));
  check_model(site, model_with(external_weight("in.bin", "0")), 2, "E001", "--follow-symlinks-within",
              follow(site.folder / "missing"));
}

TEST_CASE("data in anything but a regular file of one name is refused without hanging") {
  const Site site;
  site.folder.file("outside.bin", float_bytes({1, 2, 3, 4}));
  fs::create_hard_link(site.folder / "outside.bin", site.folder / "model/hard.bin");
  check_model(site, model_with(external_weight("hard.bin", "0")), 3, "E313", "hard link count of 2");
  REQUIRE(mkfifo((site.folder / "model/fifo").c_str(), 0600) == 0);
  fs::create_directory(site.folder / "model/folder");
  const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = site.folder / "model/socket";
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  REQUIRE(bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  for (const char* location : {"fifo", "folder", "socket"}) {
    CAPTURE(location);
    check_model(site, model_with(external_weight(location, "0")), 3, "E314", "not a regular file");
  }
  close(descriptor);
}

TEST_CASE("offset, length and keys of external data are checked") {
  const Site site;
  site.folder.file("model/w.bin", std::string(64, '\0'));
  const auto with_keys = [](std::initializer_list<std::pair<const char*, std::string>> keys) {
    proto::TensorProto tensor = external_weight("w.bin", "0");
    tensor.mutable_external_data()->RemoveLast();
    for (const auto& [key, value] : keys) {
      proto::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return model_with(tensor);
  };
  for (const char* number :
       {"-4", "0x10", "1e3", "18446744073709551616", "9223372036854775808", "", " 4", "4 ", "+4"}) {
    CAPTURE(number);
    check_model(site, with_keys({{"offset", number}}), 3, "E315", "bad offset");
    check_model(site, with_keys({{"length", number}}), 3, "E315", "bad length");
  }
  CHECK(site.accepts(with_keys({{"offset", "48"}, {"length", "16"}})));
  for (const char* offset : {"49", "64", "65", "9223372036854775807"})
    check_model(site, with_keys({{"offset", offset}}), 3, "E316", "past the end");
  check_model(site, with_keys({{"offset", "60"}, {"length", "9223372036854775807"}}), 3, "E316", "past the end");
  for (const char* length : {"0", "15", "17", "64"})
    check_model(site, with_keys({{"length", length}}), 3, "E303", "expected: 16 bytes");
  check_model(site, with_keys({{"offset", "0"}, {"offset", "0"}}), 3, "E317", "occurs twice");
  check_model(site, with_keys({{"location", "w.bin"}}), 3, "E317", "occurs twice");
  for (const char* key : {"offsets", "__class__", "Offset", "data_ptr", ""})
    check_model(site, with_keys({{key, "0"}}), 3, "E317", "unknown key");
  // onnxruntime's marker for data at an address of the process.
  check_model(site, model_with(external_weight("*/_ORT_MEM_ADDR_/*", "140000000000")), 3, "E317",
              "another runtime's marker");
  proto::ModelProto model = with_keys({});
  model.mutable_graph()->mutable_initializer(0)->clear_external_data();
  check_model(site, model, 3, "E317", "'location' is missing");
  model = with_keys({});
  model.mutable_graph()->mutable_initializer(0)->clear_data_location();
  check_model(site, model, 3, "E317", "not EXTERNAL");
}

// Typed data of one byte an element, which may be eight in memory.
TEST_CASE("a large file of varints takes memory by its own size, not by that of its elements") {
  constexpr int64_t count = 24 << 20;
  std::string numbers(static_cast<size_t>(count), '\0');
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<char>(i % 127);
  struct Case {
    const char* name;
    int data_type, field, bytes_each;
  };
  for (const Case& c :
       {Case{"int64_data", proto::TensorProto::INT64, 7, 8}, Case{"int32_data", proto::TensorProto::INT32, 5, 4}}) {
    CAPTURE(c.name);
    Site site;
    proto::ModelProto model = empty_model();
    *model.mutable_graph()->mutable_output(0) = value_proto("y", {count}, c.data_type);
    add(*model.mutable_graph(), node_proto("Identity", {"w"}, {"y"}));
    const std::string tensor = concat(tag(1, 0), varint(count), tag(2, 0), varint(static_cast<uint64_t>(c.data_type)),
                                      message(8, "w"), message(c.field, numbers));
    const std::string graph = model.graph().SerializeAsString();
    model.clear_graph();
    const std::string bytes =
        concat(model.SerializeAsString(), message(model_graph, concat(graph, message(graph_initializer, tensor))));
    site.memory_bytes = 4 * static_cast<int64_t>(bytes.size()) + (int64_t{256} << 20);
    const CommandResult result = site.import(bytes);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    std::ifstream weights(site.folder / "out/m.safetensors", std::ios::binary);
    for (int64_t from_end : {int64_t{1}, int64_t{1000}, count / 2, count}) {
      int64_t value = 0;
      weights.seekg(-from_end * c.bytes_each, std::ios::end);
      weights.read(reinterpret_cast<char*>(&value), c.bytes_each);
      CHECK(value == (count - from_end) % 127);
    }
  }
}

}  // namespace
}  // namespace rtx::onnx
