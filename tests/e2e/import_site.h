// rtx-import run on one model in a folder of its own, and the check that it refuses the model as it should.
#pragma once

#include <chrono>
#include <filesystem>

#include "base/utf8.h"
#include "tests/command.h"
#include "tests/unit/onnx_file.h"

namespace rtx::onnx {

namespace fs = std::filesystem;

// A folder with model/m.onnx and an empty out/.
struct Site {
  TempFolder folder;
  int64_t memory_bytes = int64_t{2} << 30;  // what one run may take
  Site() {
    fs::create_directory(folder / "model");
    fs::create_directory(folder / "out");
  }
  CommandResult import(std::string_view model, const std::vector<std::string>& more = {}) const {
    folder.file("model/m.onnx", model);
    return import_path(folder / "model/m.onnx", more);
  }
  CommandResult import(const proto::ModelProto& model, const std::vector<std::string>& more = {}) const {
    return import(model.SerializeAsString(), more);
  }
  // Imports the model, and empties the folder of results again.
  bool accepts(const proto::ModelProto& model, const std::vector<std::string>& more = {}) const {
    const CommandResult result = import(model, more);
    if (result.exit_code != 0) MESSAGE(result.err);
    fs::remove_all(folder / "out");
    fs::create_directory(folder / "out");
    return result.exit_code == 0;
  }
  CommandResult import_path(const std::string& path, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = limited();
    command.insert(command.end(), {RTX_IMPORT, path, "-o", folder / "out/m.rtxir"});
    command.insert(command.end(), more.begin(), more.end());
    return run_command(command);
  }
  // The start of a command that may take no more. The sanitizers reserve address space without limit, so they look at
  // what is used.
  std::vector<std::string> limited() const {
    if (RTX_SANITIZED) return {"env", concat("ASAN_OPTIONS=hard_rss_limit_mb=", memory_bytes >> 20)};
    return {"prlimit", concat("--as=", memory_bytes)};
  }
};

// Refused with this exit code and id, in time, with help, in few words, and nothing was written.
template <typename Run>
void check_refused(const Site& site, Run run, int exit_code, std::string_view id, std::string_view words) {
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result = run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.empty());
  // Rules of operations stand under their own names: [RTX-E321], [matmul_c1].
  const std::string shown = id.front() == 'E' ? concat("[RTX-", id, "]") : concat("[", id, "]");
  CHECK(result.err.find(shown) != std::string::npos);
  CHECK(result.err.find(words) != std::string::npos);
  const bool has_place = result.err.find(".onnx") != std::string::npos || exit_code == 2;
  CHECK(has_place);
  const bool says_what_to_do =
      result.err.find("help: ") != std::string::npos || result.err.find("expected: ") != std::string::npos;
  CHECK(says_what_to_do);
  CHECK(elapsed.count() < (RTX_SANITIZED ? 10 : 2));
  CHECK(result.err.size() <= 64 << 10);
  CHECK(is_utf8(result.err));
  for (const char c : result.err) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 0x20));
  CHECK(fs::is_empty(site.folder / "out"));
}

inline void check_model(const Site& site, std::string_view model, int exit_code, std::string_view id,
                        std::string_view words, const std::vector<std::string>& more = {}) {
  check_refused(
      site, [&] { return site.import(model, more); }, exit_code, id, words);
}
inline void check_model(const Site& site, const proto::ModelProto& model, int exit_code, std::string_view id,
                        std::string_view words, const std::vector<std::string>& more = {}) {
  check_model(site, model.SerializeAsString(), exit_code, id, words, more);
}

// Tensors of shape [4] named "w".
inline proto::TensorProto weight() {
  proto::TensorProto tensor = tensor_proto();
  tensor.set_raw_data(float_bytes({1, 2, 3, 4}));
  return tensor;
}

inline proto::TensorProto external_weight(std::string_view location, std::string_view offset) {
  proto::TensorProto tensor = tensor_proto();
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair("location", location), std::pair("offset", offset)}) {
    proto::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::string(value));
  }
  return tensor;
}

}  // namespace rtx::onnx
