#include "base/nearest_name.h"

#include <doctest/doctest.h>

namespace rtx {
namespace {

TEST_CASE("the nearest name is the one with the fewest changes, if they are few") {
  const std::vector<std::string> names = {"batch", "sequence_length", "past_length"};
  CHECK(nearest_name("bach", names) == "batch");
  CHECK(nearest_name("Batch", names) == "batch");
  CHECK(nearest_name("sequence_lenght", names) == "sequence_length");
  CHECK(nearest_name("past_lenth", names) == "past_length");
  CHECK(nearest_name("x", names).empty());
  CHECK(nearest_name("seq", names).empty());
  CHECK(nearest_name("", names).empty());
  CHECK(nearest_name("batch", {}).empty());
  CHECK(nearest_name("ab", {"ac", "ad"}).empty());      // one of two letters is too much
  CHECK(nearest_name("abc", {"abd", "abe"}) == "abd");  // of equals the first
  CHECK(nearest_name(std::string(1000, 'a'), {std::string(1000, 'a')}).empty());
}

}  // namespace
}  // namespace rtx
