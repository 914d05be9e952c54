#include "base/glob.h"

#include <doctest/doctest.h>

#include <string>

namespace rtx {

TEST_CASE("a glob fits the whole of a text") {
  CHECK(glob_fits("", ""));
  CHECK(glob_fits("*", ""));
  CHECK(glob_fits("**", "layer"));
  CHECK(glob_fits("layer.0/fc", "layer.0/fc"));
  CHECK(glob_fits("layer.?/*", "layer.3/attn/MatMul"));
  CHECK(glob_fits("*MatMul", "/a/MatMul/b/MatMul"));
  CHECK(glob_fits("a*b*c", "aXbYbZc"));
  CHECK_FALSE(glob_fits("", "a"));
  CHECK_FALSE(glob_fits("?", ""));
  CHECK_FALSE(glob_fits("layer", "layers"));
  CHECK_FALSE(glob_fits("ayer", "layer"));
  CHECK_FALSE(glob_fits("a*b*c", "aXbYbZ"));
  CHECK_FALSE(glob_fits("layer.1*", "layer.2"));
  CHECK(glob_fits("[x]\\*", "[x]\\star"));  // nothing but * and ? is special
}

TEST_CASE("a glob of many stars takes no more than the product of the lengths") {
  std::string pattern, text(5000, 'a');
  for (int i = 0; i < 500; ++i) pattern += "*a";
  CHECK_FALSE(glob_fits(pattern + "b", text));
}

}  // namespace rtx
