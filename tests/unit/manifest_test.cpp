#include "runtime/package/manifest.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>

#include "runtime/package/yaml.h"
#include "tests/unit/manifest_samples.h"

namespace rtx::package {
namespace {

std::string outcome(std::string_view yaml) {
  const auto manifest = parse_manifest(yaml, "manifest.yaml");
  if (manifest) return "ok";
  CHECK(manifest.error().first().kind == ErrorKind::integrity);
  CHECK(manifest.error().first().where.starts_with("manifest.yaml"));
  return manifest.error().first().id;
}

// The small manifest with one piece of its text replaced and the checksum made right again.
std::string edited(std::string_view from, std::string_view to) {
  std::string text = to_yaml(small_manifest());
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return with_checksum(text.replace(at, from.size(), to));
}

std::string message(std::string_view yaml) {
  const auto manifest = parse_manifest(yaml, "m");
  return manifest ? "ok" : to_string(manifest.error().first());
}

TEST_CASE("a manifest is written as readable YAML, one line a buffer or step") {
  const std::string text = to_yaml(small_manifest());
  CHECK(
      text.starts_with("rtx_package: 3\n"
                       "producer: \"rtx-compile 0.1.0\"\n"
                       "determinism: batch_invariant\n"
                       "archs: [sm_90a, sm_120]\n"
                       "symbols:\n"
                       "  - {name: \"batch\", min: 1, max: 8, opt: 4}\n"));
  CHECK(text.find("    body: |\n"
                  "      fusion {kind = \"pointwise\"} (%a: tensor<[batch, seq], f32>) {\n"
                  "        yield %a\n"
                  "      }\n") != std::string::npos);
  CHECK(text.find(
            "      - {kernel: 0, operands: [0, 1], results: [2], scratch: [4, 5], origins: [\"/encoder/Add_1\", \"it's "
            "\\\"quoted\\\"\"], decisions: [0]}\n") != std::string::npos);
}

TEST_CASE("a program that an input selects names a bool of one element") {
  Manifest manifest = small_manifest();
  manifest.programs[0].inputs.push_back({"cache", DType::boolean, {Formula(1)}});
  manifest.programs[0].when = Selector{1, true};
  const std::string text = to_yaml(manifest);
  CHECK(text.find("  - name: \"main\"\n    when: {input: 1, value: true}\n") != std::string::npos);
  const auto parsed = parse_manifest(text, "m");
  REQUIRE(parsed.ok());
  CHECK(*parsed == manifest);
  manifest.programs[0].when->input = 0;
  CHECK(parse_manifest(to_yaml(manifest), "m").error().first().id == "E601");
  manifest.programs[0].when->input = 2;
  CHECK(parse_manifest(to_yaml(manifest), "m").error().first().id == "E601");
}

TEST_CASE("a written manifest is read back as it was") {
  const Manifest manifest = small_manifest();
  const auto parsed = parse_manifest(to_yaml(manifest), "m");
  REQUIRE(parsed.ok());
  CHECK(*parsed == manifest);
  CHECK(parsed->find_program("main") == &parsed->programs[0]);
  CHECK(parsed->find_program("other") == nullptr);
  Manifest other = manifest;
  other.kernels[0].launch->resources[1].occupancy = 0.5;
  CHECK(!(other == manifest));  // equality looks everywhere
}

TEST_CASE("random manifests survive writing and reading, and equal ones have equal bytes") {
  std::mt19937 random(4);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const Manifest manifest = random_manifest(random, 8);
    const std::string text = to_yaml(manifest);
    const auto parsed = parse_manifest(text, "m");
    if (!parsed) FAIL_CHECK(to_string(parsed.error().first()));
    REQUIRE(parsed.ok());
    REQUIRE(*parsed == manifest);
    REQUIRE(to_yaml(*parsed) == text);
  }
}

TEST_CASE("every damaged byte of a manifest is noticed") {
  const std::string good = to_yaml(small_manifest());
  REQUIRE(outcome(good) == "ok");
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {1, 32}) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(damaged[i] ^ bit);
      const std::string id = outcome(damaged);
      REQUIRE((id == "E601" || id == "E602" || id == "E611"));
    }
    REQUIRE(outcome(good.substr(0, i)) != "ok");
  }
  CHECK(outcome(good + "\n") == "E601");
  CHECK(outcome(good + good) == "E601");
  CHECK(outcome(edited("seq", "seq") + "x: 1\n") == "E601");
}

TEST_CASE("a manifest of another version is refused before anything else in it matters") {
  CHECK(outcome("rtx_package: 4\nunheard_of: {a: 1}\n") == "E602");
  CHECK(outcome(edited("rtx_package: 3", "rtx_package: 1")) == "E602");
  CHECK(outcome(edited("rtx_package: 3", "rtx_package: 01")) == "E601");
  CHECK(outcome(edited("rtx_package: 3\n", "")) == "E601");
}

TEST_CASE("YAML that rtx does not write is refused") {
  auto is_refused = [](std::string_view from, std::string_view to) {
    CAPTURE(to);
    CHECK(outcome(edited(from, to)) == "E601");
  };
  is_refused("\"rtx-compile 0.1.0\"", "&a \"rtx-compile 0.1.0\"");  // anchor
  is_refused("\"rtx-compile 0.1.0\"", "*a");                        // alias
  is_refused("\"rtx-compile 0.1.0\"", "!!str \"rtx\"");             // tag
  is_refused("\"rtx-compile 0.1.0\"", "'rtx'");                     // single quotes
  is_refused("\"rtx-compile 0.1.0\"", "\"rtx\" # comment");
  is_refused("\"rtx-compile 0.1.0\"", "\"a\n  b\"");  // a string over two lines
  is_refused("\"rtx-compile 0.1.0\"", "\"\\q\"");
  is_refused("\"rtx-compile 0.1.0\"", "\"\\ud800\"");
  is_refused("\"rtx-compile 0.1.0\"", "\"\\x4\"");
  is_refused("\"rtx-compile 0.1.0\"", "");
  is_refused("\"rtx-compile 0.1.0\"", ">\n  folded");
  is_refused("rtx_package", "---\nrtx_package");
  is_refused("rtx_package", "%YAML 1.2\n---\nrtx_package");
  is_refused("rtx_package", "\xef\xbb\xbfrtx_package");
  is_refused("archs: [sm_90a, sm_120]", "archs:\n- sm_90a\n- sm_120");
  is_refused("archs: [sm_90a, sm_120]", "archs: [sm_90a, sm_120");
  is_refused("archs: [sm_90a, sm_120]", "archs: [sm_90a,sm_120]");
  is_refused("archs: [sm_90a, sm_120]", "archs: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]");
  is_refused("archs: [sm_90a, sm_120]", "archs: [,]");
  is_refused("producer:", "producer :");
  is_refused("producer: ", "producer:  ");
  is_refused("producer: ", "producer:\t");
  is_refused("producer", "Producer");
  is_refused("producer", "? producer");
  is_refused("producer", "<<: {a: 1}\nproducer");
  is_refused("producer", "{}: 1\nproducer");
  is_refused("producer", "[a]: 1\nproducer");
  is_refused("producer", "\"producer\": 1\nproducer");
  is_refused("producer", "---\nproducer");  // a second document
  is_refused("producer", "...\nproducer");
  is_refused("determinism: batch_invariant", "determinism: ~");
  is_refused("determinism: batch_invariant", "determinism: null");
  is_refused("archs: [sm_90a, sm_120]", "archs: &a [*a]");  // an alias of what it stands in
  is_refused("archs: [sm_90a, sm_120]", "archs: [a\"[[[\"]");
  is_refused("archs: [sm_90a, sm_120]", "archs: [sm_90a,\n  sm_120]");
  is_refused("    body: |\n", "    body: |2\n");
  is_refused("    body: |\n", "    body: |\n        \n");
  is_refused("determinism", "producer: \"twice\"\ndeterminism");
  is_refused("min: 1, max: 8", "min: 1, min: 1, max: 8");
  is_refused("\n", "\r\n");
  CHECK(outcome(std::string("rtx_package: 3\n\0", 16)) == "E601");
  CHECK(outcome("") == "E601");
  CHECK(outcome("\n") == "E601");
  CHECK(outcome("[]\n") == "E601");
  CHECK(outcome("{}\n") == "E601");
  CHECK(outcome("a\n") == "E601");
  CHECK(outcome(std::string(9 << 20, 'a')) == "E601");
  CHECK(outcome("rtx_package: " + std::string(1 << 20, '[') + "\n") == "E601");
  std::string deep = "rtx_package:\n";
  for (int i = 1; i < 501; ++i) deep += std::string(2 * static_cast<size_t>(i), ' ') + "a:\n";
  CHECK(outcome(deep) == "E601");
  std::string dashes = "a:";
  for (int i = 0; i < 40; ++i) dashes += "\n" + std::string(static_cast<size_t>(i), ' ') + "-";
  CHECK(outcome(dashes + "\n") == "E601");
  std::string lines = "a: ";
  for (int i = 0; i < 100'000; ++i) lines += "[\n";
  CHECK(outcome(lines) == "E601");
  std::string wide = "a: [0";
  for (int i = 0; i < 1'100'000; ++i) wide += ", 0";
  CHECK(outcome(wide + "]\n") == "E601");
}

TEST_CASE("unknown, missing and mistyped entries are refused with their place") {
  auto is_refused = [](std::string_view from, std::string_view to, std::string_view expected) {
    CAPTURE(to);
    const std::string text = message(edited(from, to));
    CAPTURE(text);
    CHECK(text.find(expected) != std::string::npos);
  };
  is_refused("determinism: batch", "colour: red\ndeterminism: batch",
             "m:3:9: error: not a manifest: unknown key 'colour' [RTX-E601]");
  is_refused("opt: 4}", "opt: 4, step: 1}", "unknown key 'step'");
  is_refused(", opt: 4", "", "m:6:5: error: not a manifest: the key 'opt' is missing");
  is_refused("min: 1", "min: one", "'min' is one, expected an integer from 0");
  is_refused("min: 1", "min: \"1\"", "'min' is not a bare word or number");
  is_refused("min: 1", "min: 01", "'min' is 01");
  is_refused("min: 1", "min: -1", "'min' is -1");
  is_refused("min: 1", "min: 9", "'max' is 8, expected an integer from 9");
  is_refused("max: 8", "max: 9223372036854775808", "'max' is 9223372036854775808");
  is_refused("opt: 4", "opt: 9", "'opt' is 9");
  is_refused("name: \"batch\"", "name: \"9batch\"", "not a symbol");
  is_refused("name: \"seq\"", "name: \"batch\"", "stands twice");
  is_refused("determinism: batch_invariant", "determinism: maybe", "unknown value 'maybe'");
  is_refused("sm_90a, sm_120]", "sm_90b, sm_120]", "'sm_90b'");
  is_refused("sm_90a, sm_120]", "sm_120, sm_120]", "stands twice");
  is_refused("sm_90a, sm_120]", "sm_120, sm_90a]", "does not have one entry for each");
  is_refused("archs: [sm_90a, sm_120]", "archs: []", "'resources' does not have");
  is_refused("archs: [sm_90a, sm_120]", "archs: sm_90a", "'archs' is not a list");
  is_refused(std::string(64, 'a'), std::string(64, 'A'), "64 lower-case hex digits");
  is_refused("bytes: 640", "bytes: 640.0", "'bytes' is 640.0");
  is_refused("occupancy: 1}", "occupancy: 1.5}", "'occupancy' is not a number from 0 to 1");
  is_refused("occupancy: 1}", "occupancy: nan}", "'occupancy' is not a number from 0 to 1");
  is_refused("block: [256, 1, 1]", "block: [256, 8, 1]", "more than 1024 threads");
  is_refused("block: [256, 1, 1]", "block: [256, 1]", "three sizes");
  is_refused("block: [256, 1, 1]", "block: [0, 1, 1]", "an item of the list is 0");
  is_refused("function: \"pointwise_01ab\"", "function: \"a-b\"", "not a C identifier");
  is_refused("code_bytes: 640", "code_bytes: -1", "'code_bytes' is -1");
  is_refused("transpose_rhs: true", "transpose_rhs: yes", "not true or false");
  is_refused("dtype: bf16", "dtype: float", "unknown value 'float'");
  is_refused("flops: \"batch*seq\"", "flops: \"batch*sequence\"", "column 7: unknown symbol [RTX-E603]");
  is_refused("flops: \"batch*seq\"", "flops: -1", "'flops' is -1");
  is_refused("name: \"contract_02cd\"", "name: \"pointwise_01ab\"", "stands twice");
  is_refused("    matmul:", "    matmul_call:", "exactly one of");
  is_refused("kind: arena, index: 1", "kind: arena, index: 2", "'index' is 2, expected an integer from 0 to 1");
  is_refused("kind: weight, index: 0", "kind: weight, index: 4294967296", "'index' is 4294967296");
  is_refused("kind: input, index: 0", "kind: scratch, index: 0", "unknown value 'scratch'");
  is_refused("kind: counters, index: 0", "kind: counters, index: 1", "buffer 5 has not the next number");
  is_refused("kernel: 1,", "kernel: 2,", "'kernel' is 2");
  is_refused("operands: [2, 1]", "operands: [2, 6]", "an item of the list is 6");
  is_refused("results: [3]", "results: [1]", "a step writes to buffer 1, an input or a weight");
  is_refused("results: [3]", "results: [0]", "a step writes to buffer 0");
  is_refused("results: [3]", "results: [5]", "a step writes to buffer 5");
  is_refused("operands: [2, 1]", "operands: [2, 5]", "an operand is buffer 5, counters");
  is_refused("scratch: [4, 5]", "scratch: [4, 6]", "an item of the list is 6");
  is_refused("scratch: [4, 5]", "scratch: [4]", "gives the kernel [arena], but it takes [arena, counters]");
  is_refused("scratch: [4, 5]", "scratch: [5, 4]", "gives the kernel [counters, arena]");
  is_refused("scratch: [4, 5]", "scratch: [3, 5]", "gives the kernel [output, counters]");
  is_refused("scratch: [4, 5]", "scratch: [2, 5]", "buffer 2 is scratch, and an operand or result");
  is_refused("scratch: []", "scratch: [4]", "but it takes []");
  is_refused("workspace_bytes: \"4*batch*seq\"", "workspace_bytes: 0", "but it takes [counters]");
  is_refused("counters: \"2*batch\"", "counters: 0", "but it takes [arena]");
}

TEST_CASE("counters belong to one step") {
  Manifest m = small_manifest();
  m.programs[0].steps.push_back(m.programs[0].steps[0]);
  CHECK(message(to_yaml(m)).find("buffer 5, counters, is scratch of 2 steps, not of one") != std::string::npos);
  m.programs[0].buffers.push_back({BufferKind::counters, 1, Formula(4)});
  m.programs[0].steps[2].scratch[1] = 6;
  CHECK(message(to_yaml(m)) == "ok");
  m.programs[0].steps.pop_back();
  CHECK(message(to_yaml(m)).find("buffer 6, counters, is scratch of 0 steps") != std::string::npos);
}

TEST_CASE("decisions are bounded, and referred to once each") {
  const auto refused = [](std::string_view from, std::string_view to, std::string_view part) {
    const std::string text = message(edited(from, to));
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    CHECK(outcome(edited(from, to)) == "E601");
  };
  refused("decisions: [1, 2]", "decisions: [1, 3]", "3, expected an integer from 0 to 2");
  refused("decisions: [1, 2]", "decisions: [1, 1]", "decision 1 stands twice");
  refused("percent: 85", "percent: 0", "expected an integer from 1 to 100");
  refused("percent: 40", "percent: 101", "expected an integer from 1 to 100");
  refused("unit: tensor", "unit: tensors", "unknown value");
  refused("operand: 1", "operand: 4294967296", "expected an integer");
  refused("\"own kernel\"", concat("\"", std::string(81, 'x'), "\""), "'subject' is longer than 80 bytes");
  refused("\"slower\"", concat("\"", std::string(401, 'x'), "\""), "'reason' is longer than 400 bytes");
  refused("tuning_table: \"e", "tuning_table: \"E", "64 lower-case hex digits");
  Manifest many = small_manifest();
  many.decisions[2].launches.resize(9);
  CHECK(message(to_yaml(many)).find("'launches' has more than 8 entries") != std::string::npos);
}

TEST_CASE("estimates add up the launches") {
  const Manifest m = small_manifest();
  const std::vector<int64_t> symbols = {4, 16};
  const Gpu gpu = find_gpu("sm_120").value();
  // 8 flops at 85% of 209.5 TFLOP/s and 7 bytes are nothing beside two launches of 1 us.
  CHECK(estimate_ns(m.decisions[2].launches, symbols, gpu).value() == doctest::Approx(2000).epsilon(1e-3));
  // 1e9 bytes at 0.855 * 1.792 TB/s; 1e9 flops in f32 at half of 104.8 TFLOP/s are less.
  const PlannedWork work{MathUnit::f32, 50, Formula(1'000'000'000), Formula(1'000'000'000)};
  CHECK(estimate_ns(std::array{work}, symbols, gpu).value() ==
        doctest::Approx(1000 + 1e9 / (0.855 * 1792)).epsilon(1e-6));
  const PlannedWork product{MathUnit::tensor, 50, Formula(int64_t{1} << 50), Formula(1)};
  CHECK(estimate_ns(std::array{product}, symbols, gpu).value() ==
        doctest::Approx(1000 + std::ldexp(1e9, 50) / (0.5 * 209.5e12)).epsilon(1e-6));
  CHECK(find_gpu("sm_90").value().name == "H200");
  CHECK(find_gpu("sm_75").error().first().id == "E411");
  const PlannedWork overflow{MathUnit::f32, 50, Formula::parse("batch*9000000000000000000", m.symbol_names()).value(),
                             Formula(0)};
  CHECK(estimate_ns(std::array{overflow}, symbols, gpu).error().first().id == "E604");
}

TEST_CASE("a step reads only what the arena holds, and writes over nothing that it works with") {
  auto outcome = [](const std::function<void(Program&)>& change) {
    Manifest m = small_manifest();
    change(m.programs[0]);
    return message(to_yaml(m));
  };
  auto says = [&](const std::string& what, const std::function<void(Program&)>& change) {
    const std::string text = outcome(change);
    CAPTURE(text);
    CHECK(text.find(what) != std::string::npos);
  };
  CHECK(outcome([](Program&) {}) == "ok");
  says("step 0 reads buffer 2, which", [](Program& p) { p.steps[0].operands[0] = 2; });
  says("step 0 reads buffer 2, which", [](Program& p) { std::swap(p.steps[0], p.steps[1]); });
  says("step 1 reads buffer 4, which", [](Program& p) { p.steps[1].operands[0] = 4; });  // scratch is no value
  says("step 0 writes buffer 4 over", [](Program& p) { p.buffers[4].index = 1; });       // where its result lies
  says("step 0 writes buffer 2 over", [](Program& p) { p.steps[0].results.push_back(2); });
  says("step 1 writes buffer 2 over", [](Program& p) { p.steps[1].results = {2}; });
  // Another buffer in the piece of buffer 2, written between where that is written and read.
  auto overwrite = [](Program& p) {
    p.buffers.push_back({BufferKind::arena, 1, Formula(8)});
    p.steps.insert(p.steps.begin() + 1, {1, {0, 1}, {6}, {}, {}});
  };
  says("step 2 reads buffer 2, which", overwrite);
  CHECK(outcome([&](Program& p) {
          overwrite(p);
          p.steps[2].operands[0] = 6;
        }) == "ok");
}

TEST_CASE("a variant follows its general program and differs in sizes alone") {
  auto with_variant = [](const std::function<void(Manifest&)>& change) {
    Manifest m = small_manifest();
    m.programs.push_back(m.programs[0]);
    m.programs[1].name = "main.batch_1";
    m.programs[1].variant = Variant{0, {{0, 1}}};
    m.programs[1].inputs[0].shape[0] = Formula(1);
    change(m);
    return m;
  };
  const Manifest good = with_variant([](Manifest&) {});
  const std::string text = to_yaml(good);
  CHECK(text.find("  - name: \"main.batch_1\"\n    variant: {of: 0, dims: [{symbol: 0, size: 1}]}\n") !=
        std::string::npos);
  const auto parsed = parse_manifest(text, "m");
  REQUIRE(parsed.ok());
  CHECK(*parsed == good);
  auto says = [&](const std::string& what, const std::function<void(Manifest&)>& change) {
    const std::string got = message(to_yaml(with_variant(change)));
    CAPTURE(got);
    CHECK(got.find(what) != std::string::npos);
  };
  says("'symbol' is 2", [](Manifest& m) { m.programs[1].variant->dims[0].symbol = 2; });
  says("'symbol' is 0", [](Manifest& m) { m.programs[1].variant->dims.push_back({0, 2}); });
  says("'size' is 9", [](Manifest& m) { m.programs[1].variant->dims[0].size = 9; });
  says("'size' is 0", [](Manifest& m) { m.programs[1].variant->dims[0].size = 0; });
  says("no dims", [](Manifest& m) { m.programs[1].variant->dims.clear(); });
  says("no variant of a general", [](Manifest& m) { m.programs[1].variant->of = 1; });
  says("no variant of a general", [](Manifest& m) { m.programs[1].variant->of = 7; });
  says("no variant of a general", [](Manifest& m) { std::swap(m.programs[0], m.programs[1]); });
  says("in more than sizes", [](Manifest& m) { m.programs[1].inputs[0].dtype = DType::i32; });
  says("in more than sizes", [](Manifest& m) { m.programs[1].outputs[0].name = "other"; });
  says("in more than sizes", [](Manifest& m) { m.programs[1].inputs[0].shape.pop_back(); });
  says("are one variant", [](Manifest& m) {
    m.programs.push_back(m.programs[1]);
    m.programs[2].name = "again";
  });
}

TEST_CASE("a manifest of 400 steps is small and quickly read") {
  std::mt19937 random(6);
  Manifest m = small_manifest();
  while (m.programs[0].steps.size() < 400) m.programs[0].steps.push_back(m.programs[0].steps[1]);
  for (int i = 0; i < 60; ++i) {
    m.kernels.push_back(m.kernels[0]);
    m.kernels.back().name += std::to_string(i);
  }
  const std::string text = to_yaml(m);
  MESSAGE(text.size() << " bytes");
  CHECK(text.size() < 200'000);
  CHECK(*parse_manifest(text, "m") == m);
}

}  // namespace
}  // namespace rtx::package
