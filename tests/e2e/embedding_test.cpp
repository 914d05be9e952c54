// docs/embedding.md shows examples/run_package.cpp, and that program runs a package.
#include <doctest/doctest.h>

#include "tests/command.h"
#include "tests/e2e/hand_made_package.h"

namespace rtx {
namespace {

TEST_CASE("the example of docs/embedding.md is the one that is built") {
  const std::string root = RTX_TEST_DIR "/..";
  const std::string page = read_text_file(root + "/docs/embedding.md", 1 << 20).value();
  const std::string example = read_text_file(root + "/examples/run_package.cpp", 1 << 20).value();
  CHECK(page.find("```cpp\n" + example + "```") != std::string::npos);
}

TEST_CASE("the example runs a package and reports a missing one") {
  const TempFolder folder;
  write_hand_made_package(folder / "m.rtxpkg");
  const CommandResult r = run_command({RTX_EXAMPLE, folder / "m.rtxpkg"});
  CHECK(r.exit_code == 0);
  CHECK(r.out.find("sum f32[2, 4]: min 20, max 80, mean 50; 20 40 60 80 20 40 60 80\n") == 0);
  const CommandResult absent = run_command({RTX_EXAMPLE, folder / "absent"});
  CHECK(absent.exit_code == 9);
  CHECK(absent.err.find("RTX-E901") != std::string::npos);
}

}  // namespace
}  // namespace rtx
