#include "codegen/strided_view.h"

#include <doctest/doctest.h>

#include "ir/text.h"

namespace rtx::codegen {
namespace {

// The last operation before the yield of a function of this body.
struct Moves {
  std::unique_ptr<Module> module;
  const Value* result() const { return module->functions[0]->block.terminator()->operand(0); }
};

Moves parse(const std::string& arguments, const std::string& body) {
  auto module = parse_module("rtxir 1\nstage canonical\nsymbol b 0..64\nsymbol s 0..64\nfunc @main(" + arguments +
                                 ") {\n" + body + "} outputs \"y\"\n",
                             "test");
  REQUIRE_MESSAGE(module, to_string(module.error().first()));
  return {std::move(*module)};
}

TEST_CASE("heads cut out of a joined product are a view of it") {
  Moves moves = parse("%0 \"x\": tensor<[b, s, 96], f32>",
                      "  %1 = slice(%0) {starts = [0, 0, 32], sizes = [b, s, 32], steps = [1, 1, 1]} : "
                      "tensor<[b, s, 32], f32>\n"
                      "  %2 = reshape(%1) {shape = [b, s, 4, 8]} : tensor<[b, s, 4, 8], f32>\n"
                      "  %3 = transpose(%2) {perm = [0, 2, 1, 3]} : tensor<[b, 4, s, 8], f32>\n"
                      "  yield(%3)\n");
  const ViewOf found = furthest_base(moves.result());
  CHECK(found.base == moves.module->functions[0]->block.argument(0));
  CHECK(found.view.offset == Dim(32));
  const Dim s = Dim::symbol("s");
  CHECK(found.view.strides == std::vector<Dim>{s * 96, 8, 96, 1});
}

TEST_CASE("a reshape across a cut is no view, and the base is what the cut gives") {
  Moves moves = parse("%0 \"x\": tensor<[b, s, 96], f32>",
                      "  %1 = slice(%0) {starts = [0, 0, 32], sizes = [b, s, 32], steps = [1, 1, 1]} : "
                      "tensor<[b, s, 32], f32>\n"
                      "  %2 = reshape(%1) {shape = [b, 32*s]} : tensor<[b, 32*s], f32>\n"
                      "  %3 = transpose(%2) {perm = [1, 0]} : tensor<[32*s, b], f32>\n"
                      "  yield(%3)\n");
  const ViewOf found = furthest_base(moves.result());
  CHECK(found.base == moves.result()->def()->operand(0)->def()->operand(0));
  CHECK(found.view.strides == std::vector<Dim>{1, Dim::symbol("s") * 32});
}

TEST_CASE("a broadcast axis has no stride, and merges with its neighbour only if that has none") {
  Moves moves = parse("%0 \"x\": tensor<[b, 1, s, 8], f32>",
                      "  %1 = broadcast(%0) {shape = [b, 4, s, 8]} : tensor<[b, 4, s, 8], f32>\n"
                      "  %2 = reshape(%1) {shape = [4*b, s, 8]} : tensor<[4*b, s, 8], f32>\n"
                      "  yield(%2)\n");
  CHECK(furthest_base(moves.result()).base == moves.result()->def()->operand(0));
  const auto view =
      view_of_result(*moves.result()->def()->operand(0)->def(), row_major_view({Dim::symbol("b"), 1, 3, 8}));
  REQUIRE(view);
  CHECK(view->strides[1] == Dim(0));
}

TEST_CASE("where the heads of a result go when they are joined again") {
  Moves moves = parse("%0 \"x\": tensor<[b, 4, s, 8], f32>",
                      "  %1 = transpose(%0) {perm = [0, 2, 1, 3]} : tensor<[b, s, 4, 8], f32>\n"
                      "  %2 = reshape(%1) {shape = [b*s, 32]} : tensor<[b*s, 32], f32>\n"
                      "  yield(%2)\n");
  const Operation* reshape = moves.result()->def();
  auto view = view_of_operand(*reshape, row_major_view(reshape->result()->type.shape));
  REQUIRE(view);
  view = view_of_operand(*reshape->operand(0)->def(), *view);
  REQUIRE(view);
  CHECK(view->strides == std::vector<Dim>{Dim::symbol("s") * 32, 8, 32, 1});
}

}  // namespace
}  // namespace rtx::codegen
