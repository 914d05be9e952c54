// recover_composites says why what looks like a composite operation is none: on the negative twins of its goldens.

#include <doctest/doctest.h>

#include "base/file.h"
#include "base/text.h"
#include "ir/text.h"
#include "passes/recover_composites.h"

namespace rtx::testing {
namespace {

// "composite: reason" of each near match in a file of tests/golden/recover_composites.
std::vector<std::string> near_matches_of(const std::string& name) {
  const std::string path = concat(RTX_TEST_DIR, "/golden/recover_composites/", name, ".rtxir");
  const std::string text = read_text_file(path, 1 << 20).value();
  std::unique_ptr<Module> module = parse_module(text.substr(0, text.find("# expect:")), path).value();
  PassContext context;
  REQUIRE(recover_composites(*module, context));
  std::vector<std::string> found;
  for (const NearMatch& near : context.near_matches) found.push_back(concat(near.composite, ": ", near.reason));
  return found;
}

TEST_CASE("a near match has its reason") {
  const std::pair<const char*, const char*> cases[] = {
      {"not_attention_axis", "attention: the softmax is not over the last axis"},
      {"not_attention_scaled_mask", "attention: a mask is added before scale or softcap"},
      {"not_attention_scores_needed", "attention: scores or weights are read elsewhere too"},
      {"not_gelu_argument", "gelu: the argument of erf is not x / sqrt(2)"},
      {"not_rope_tables", "rope: the halves of its tables are not known to be equal"},
  };
  for (const auto& [name, reason] : cases) {
    CAPTURE(name);
    CHECK(near_matches_of(name) == std::vector<std::string>{reason});
  }
}

TEST_CASE("what was recovered has no near match") {
  for (const char* name : {"attention_bert_ts17", "attention_softcap", "rope_llama_ts17", "gelu_tanh_gpt2_dyn20",
                           "rms_norm_llama_ts17", "layer_norm_bert_ts14"}) {
    CAPTURE(name);
    CHECK(near_matches_of(name) == std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace rtx::testing
