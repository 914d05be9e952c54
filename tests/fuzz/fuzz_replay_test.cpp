// Runs a fuzz target over its corpus: seeds, and every input that once broke something.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace rtx::fuzz {
namespace {

TEST_CASE("the corpus runs") {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(RTX_FUZZ_CORPUS)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  REQUIRE(paths.size() >= 4);
  for (const std::filesystem::path& path : paths) {
    CAPTURE(path.string());
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(stream), {});
    const auto start = std::chrono::steady_clock::now();
    CHECK(LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) == 0);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    CHECK(elapsed.count() < 10);
  }
  CHECK(LLVMFuzzerTestOneInput(nullptr, 0) == 0);
}

}  // namespace
}  // namespace rtx::fuzz
