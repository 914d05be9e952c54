// External data: what may be opened because a model says so.

#include "frontend/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/onnx_file.h"

namespace rtx::onnx {
namespace {

namespace fs = std::filesystem;

using Keys = std::vector<std::pair<std::string, std::string>>;

// A folder that holds model/m.onnx, whose weight [4] is external, model/w.bin (64 bytes, element i is i + 1), and
// outside/secret.bin.
struct Site {
  TempFolder folder;
  std::string model_folder = folder / "model";

  Site() {
    fs::create_directory(model_folder);
    fs::create_directory(folder / "outside");
    std::string data;
    for (int i = 1; i <= 16; ++i) data += float_bytes({static_cast<float>(i)});
    folder.file("model/w.bin", data);
    folder.file("outside/secret.bin", data);
  }

  Result<Model> read(const Keys& keys, const ReadOptions& options = {}) const {
    proto::TensorProto tensor = tensor_proto();
    tensor.set_data_location(proto::TensorProto::EXTERNAL);
    for (const auto& [key, value] : keys) {
      proto::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    return read_model(folder.file("model/m.onnx", model_with(tensor).SerializeAsString()), options);
  }
  std::string at(const std::string& location, const ReadOptions& options = {}) const {
    return outcome(read({{"location", location}}, options));
  }
};

TEST_CASE("external data is read from the model's own folder") {
  const Site site;
  const Result<Model> model =
      site.read({{"location", "w.bin"}, {"offset", "8"}, {"length", "16"}, {"checksum", "abc"}});
  REQUIRE(model.ok());
  CHECK(load(model->graph.initializers[0].entry)->f64(0) == 3);
  CHECK(site.at("w.bin") == "ok");
  CHECK(site.at("./w.bin") == "ok");
  fs::create_directory(site.folder / "model/weights");
  fs::copy(site.folder / "model/w.bin", site.folder / "model/weights/all.bin");
  CHECK(site.at("weights/all.bin") == "ok");
}

TEST_CASE("a location that leaves the folder is refused") {
  const Site site;
  fs::create_directory(site.folder / "model/a");
  for (const char* location :
       {"../outside/secret.bin", "a/../../outside/secret.bin", "./../outside/secret.bin", "/etc/passwd", "//etc/passwd",
        "C:\\x", "a\\..\\..\\outside\\secret.bin", "", ".", "..", "./"}) {
    CAPTURE(location);
    CHECK(site.at(location) == "E311 invalid");
  }
  CHECK(site.at(std::string("w.bin\0x", 7)) == "E111 invalid");
  CHECK(site.at("w\x1b.bin") == "E111 invalid");
}

TEST_CASE("symbolic links are refused unless they stay in a folder that the user names") {
  const Site site;
  fs::create_symlink("w.bin", site.folder / "model/inside");
  fs::create_symlink("../outside/secret.bin", site.folder / "model/outside");
  fs::create_directory_symlink("../outside", site.folder / "model/folder");
  fs::create_symlink("loop", site.folder / "model/loop");
  for (const char* location : {"inside", "outside", "folder/secret.bin", "loop"}) {
    CAPTURE(location);
    CHECK(site.at(location) == "E312 invalid");
  }
  CHECK(mentions(site.read({{"location", "inside"}}), "--follow-symlinks-within"));

  ReadOptions own, all, other;
  own.follow_symlinks_within = site.model_folder;
  all.follow_symlinks_within = site.folder.path();
  other.follow_symlinks_within = site.folder / "outside";
  CHECK(site.at("inside", own) == "ok");
  CHECK(site.at("outside", own) == "E311 invalid");
  CHECK(site.at("outside", all) == "ok");
  CHECK(site.at("folder/secret.bin", all) == "ok");
  CHECK(site.at("loop", all) == "E312 invalid");
  CHECK(site.at("w.bin", other) == "E311 invalid");  // the model is not in that folder
}

TEST_CASE("only a regular file with one name is opened, and nothing blocks") {
  const Site site;
  REQUIRE(mkfifo((site.folder / "model/fifo").c_str(), 0600) == 0);
  fs::create_directory(site.folder / "model/dir");
  fs::create_hard_link(site.folder / "outside/secret.bin", site.folder / "model/hard");
  CHECK(site.at("fifo") == "E314 invalid");
  CHECK(site.at("dir") == "E314 invalid");
  CHECK(site.at("w.bin/") == "E314 invalid");
  CHECK(site.at("hard") == "E313 invalid");
  CHECK(site.at("missing.bin") == "E901 io");
}

TEST_CASE("without openat2 the same things are refused") {
  const Site site;
  fs::create_symlink("w.bin", site.folder / "model/link");
  fs::create_directory_symlink("../outside", site.folder / "model/folder");
  fs::create_directory(site.folder / "model/weights");
  fs::copy(site.folder / "model/w.bin", site.folder / "model/weights/all.bin");
  ExternalFiles files(site.folder / "model/m.onnx", "");
  files.without_openat2 = true;
  CHECK(files.open("w.bin").ok());
  CHECK(files.open("weights/all.bin").ok());
  CHECK(files.open("link").error().first().id == "E312");
  CHECK(files.open("folder/secret.bin").error().first().id == "E312");
  CHECK(files.open("../outside/secret.bin").error().first().id == "E311");
  CHECK(files.open("missing/x").error().first().id == "E901");
}

TEST_CASE("offset and length are decimal and lie within the file") {
  const Site site;
  const auto with = [&](const std::string& offset, const std::string& length) {
    return outcome(site.read({{"location", "w.bin"}, {"offset", offset}, {"length", length}}));
  };
  CHECK(with("48", "16") == "ok");
  for (const char* bad : {"-4", "0x10", "1e1", "16.0", "+16", " 16", "16 ", "", "zero", "9223372036854775808",
                          "18446744073709551616", "18446744073709551632"}) {
    CAPTURE(bad);
    CHECK(with(bad, "16") == "E315 invalid");
    CHECK(with("0", bad) == "E315 invalid");
  }
  CHECK(with("49", "16") == "E316 invalid");
  CHECK(with("64", "16") == "E316 invalid");
  CHECK(with("9223372036854775807", "16") == "E316 invalid");
  CHECK(with("0", "80") == "E316 invalid");
  CHECK(with("0", "12") == "E303 invalid");
  CHECK(with("0", "20") == "E303 invalid");
  CHECK(outcome(site.read({{"location", "w.bin"}, {"offset", "52"}})) == "E316 invalid");
}

TEST_CASE("many tensors may share a range, but not to fill a disk") {
  const Site site;
  std::filesystem::resize_file(site.folder / "model/w.bin", 64 << 20);  // sparse
  const auto with_tensors = [&](int count) {
    proto::ModelProto model = relu_model();
    for (int i = 0; i < count; ++i) {
      proto::TensorProto& tensor = *model.mutable_graph()->add_initializer();
      tensor = tensor_proto();
      tensor.set_name(concat("w", i));
      tensor.set_dims(0, 16 << 20);
      tensor.set_data_location(proto::TensorProto::EXTERNAL);
      proto::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key("location");
      entry.set_value("w.bin");
    }
    return read_model(site.folder.file("model/m.onnx", model.SerializeAsString()));
  };
  CHECK(outcome(with_tensors(19)) == "ok");
  const Result<Model> result = with_tensors(21);  // 1 GiB + 4 x 64 MiB are 20
  CHECK(outcome(result) == "E504 limit");
  CHECK(mentions(result, "--max-sharing"));
}

TEST_CASE("keys are the known ones, each once") {
  const Site site;
  CHECK(outcome(site.read({{"location", "w.bin"}, {"location", "w.bin"}})) == "E317 invalid");
  CHECK(outcome(site.read({{"location", "w.bin"}, {"__class__", "x"}})) == "E317 invalid");
  CHECK(outcome(site.read({{"Location", "w.bin"}})) == "E317 invalid");
  CHECK(outcome(site.read({{"offset", "0"}})) == "E317 invalid");
  CHECK(outcome(site.read({})) == "E317 invalid");
}

TEST_CASE("external data and stored data together are refused") {
  const Site site;
  proto::TensorProto tensor = tensor_proto();
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  proto::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("w.bin");
  tensor.set_raw_data(float_bytes({1, 2, 3, 4}));
  CHECK(outcome(read_model(site.folder.file("model/m.onnx", model_with(tensor).SerializeAsString()))) ==
        "E304 invalid");
  tensor.set_data_location(proto::TensorProto::DEFAULT);
  CHECK(outcome(read_model(site.folder.file("model/m.onnx", model_with(tensor).SerializeAsString()))) ==
        "E317 invalid");
}

}  // namespace
}  // namespace rtx::onnx
