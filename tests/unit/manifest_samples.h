// Manifests for tests.
#pragma once

#include <random>

#include "base/sha256.h"
#include "base/text.h"
#include "runtime/package/manifest.h"

namespace rtx::package {

// `text` with its last line replaced by its checksum.
inline std::string with_checksum(std::string text) {
  const size_t last = text.rfind("checksum: ");
  if (last != std::string::npos && (last == 0 || text[last - 1] == '\n')) text.resize(last);
  return concat(text, "checksum: \"", sha256_hex(text), "\"\n");
}

// Small and with something in every field.
inline Manifest small_manifest() {
  Manifest m;
  m.producer = "rtx-compile 0.1.0";
  m.determinism = Determinism::batch_invariant;
  m.archs = {"sm_90a", "sm_120"};
  m.symbols = {{"batch", 1, 8, 4}, {"seq", 1, 512, 0}};
  const std::vector<std::string> names = m.symbol_names();
  auto f = [&](std::string_view text) { return Formula::parse(text, names).value(); };
  m.weights = {"encoder.weight"};
  m.files = {{"kernels.fatbin", 640, std::string(64, 'a')}, {"weights.safetensors", 1000, std::string(64, 'b')}};
  m.tuning_table = std::string(64, 'e');
  m.decisions = {{"merge", 1, false, "it is \"read\" 2 times", {}},
                 {"own kernel", {}, true, "", {}},
                 {"cublaslt", {}, false, "slower", {{MathUnit::tensor, 85, f("2*batch"), Formula(7)}, {}}}};
  Kernel add;
  add.name = "pointwise_01ab";
  add.kind = "pointwise";
  add.cache_key = std::string(64, 'c');
  add.body = "fusion {kind = \"pointwise\"} (%a: tensor<[batch, seq], f32>) {\n  yield %a\n}\n";
  add.determinism = Determinism::batch_invariant;
  add.plan = "v4.i32";
  add.percent = 40;
  add.decisions = {1, 2};
  add.flops = f("batch*seq");
  add.bytes = f("8*batch*seq");
  Launch launch;
  launch.function = "pointwise_01ab";
  launch.grid = {f("floordiv(batch*seq + 255, 256)"), Formula(1), Formula(1)};
  launch.block = {256, 1, 1};
  launch.workspace_bytes = f("4*batch*seq");
  launch.counters = f("2*batch");
  launch.scalars = {f("batch"), f("seq")};
  launch.code_bytes = 640;
  launch.resources = {{"sm_90a", 32, 0, 0, 0, 8, 1}, {"sm_120", 30, 1024, 16, 8, 6, 0.9375}};
  add.launch = launch;
  Kernel matmul;
  matmul.name = "contract_02cd";
  matmul.kind = "contract";
  matmul.cache_key = std::string(64, 'd');
  matmul.body = "no newline at the end";
  matmul.unit = MathUnit::tensor;
  matmul.flops = f("2*batch*seq*768");
  matmul.matmul = MatmulCall{f("batch"),  f("seq"),   Formula(768), Formula(64), false,       true,
                             f("64*seq"), Formula(0), DType::bf16,  2,           std::nullopt};
  m.kernels = {add, matmul};
  Program p;
  p.name = "main";
  p.inputs = {{"ids", DType::i64, {f("batch"), f("seq")}}};
  p.outputs = {{"out", DType::f32, {f("batch"), Formula(768)}}};
  p.arena = {f("4*batch*seq"), Formula(1024)};
  p.buffers = {{BufferKind::input, 0, f("8*batch*seq")}, {BufferKind::weight, 0, Formula(400)},
               {BufferKind::arena, 1, Formula(1024)},    {BufferKind::output, 0, f("4*batch")},
               {BufferKind::arena, 0, f("4*batch*seq")}, {BufferKind::counters, 0, f("8*batch")}};
  p.steps = {{0, {0, 1}, {2}, {4, 5}, {"/encoder/Add_1", "it's \"quoted\""}, {0}}, {1, {2, 1}, {3}, {}, {}, {}}};
  m.programs = {p};
  return m;
}

// Valid, of random size, with names and texts that need every kind of escape.
inline Manifest random_manifest(std::mt19937& random, int scale) {
  auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
  auto text = [&] {
    static const std::vector<std::string> pieces = {"a",
                                                    "Z",
                                                    "9",
                                                    " ",
                                                    "\n",
                                                    "\t",
                                                    "\"",
                                                    "\\",
                                                    "'",
                                                    "#",
                                                    ": ",
                                                    "- ",
                                                    "&",
                                                    "*",
                                                    "!",
                                                    "|",
                                                    "%",
                                                    "@",
                                                    "{",
                                                    "}",
                                                    "[",
                                                    "]",
                                                    ",",
                                                    "\x01",
                                                    "\x7f",
                                                    "\xc2\x85",
                                                    "\xc2\xa0",
                                                    "\xc3\xa9",
                                                    "\xe2\x80\xa8",
                                                    "\xef\xbb\xbf",
                                                    "\xf0\x9f\x98\x80",
                                                    "null",
                                                    "true",
                                                    "017",
                                                    "1.5",
                                                    "~"};
    std::string out;
    for (int64_t i = below(12); i > 0; --i) out += pieces[static_cast<size_t>(below(static_cast<int>(pieces.size())))];
    return out;
  };
  int unique = 0;
  auto name = [&] { return concat(text(), unique++); };
  Manifest m;
  m.producer = text();
  m.determinism = static_cast<Determinism>(below(3));
  for (const char* arch : {"sm_80", "sm_90a", "sm_100f", "sm_120"}) {
    if (below(2) != 0) m.archs.push_back(arch);
  }
  for (int64_t i = below(4); i > 0; --i) {
    const int64_t min = below(10), max = min + below(1000);
    m.symbols.push_back({concat("s.", unique++, "_x"), min, max, below(2) * max});
  }
  const auto symbols = m.symbol_names();
  auto formula = [&] {
    std::string expression = std::to_string(below(100000));
    for (int64_t i = below(4); i > 0 && !symbols.empty(); --i) {
      expression =
          concat("max(", expression, ", ", symbols[static_cast<size_t>(below(static_cast<int>(symbols.size())))], " - ",
                 below(9), ")*2");
    }
    return Formula::parse(expression, symbols).value();
  };
  auto list = [&](auto make) {
    std::vector<decltype(make())> items;
    for (int64_t i = below(scale); i > 0; --i) items.push_back(make());
    return items;
  };
  m.weights = list(name);
  for (const char* file : {"kernels.fatbin", "weights.safetensors"})
    m.files.push_back({file, below(1 << 30), sha256_hex(file)});
  if (below(2) == 0) m.tuning_table = sha256_hex(text());
  auto unit = [&] { return static_cast<MathUnit>(below(3)); };
  auto percent = [&] { return static_cast<int>(1 + below(100)); };
  for (int64_t i = below(scale); i > 0; --i) {
    Decision decision{text(), {}, below(2) == 0, text(), {}};
    if (below(2) == 0) decision.operand = static_cast<uint32_t>(below(9));
    for (int64_t launch = below(3); launch > 0; --launch)
      decision.launches.push_back({unit(), percent(), formula(), formula()});
    m.decisions.push_back(std::move(decision));
  }
  auto decisions = [&] {
    std::vector<uint32_t> positions;
    for (uint32_t i = 0; i < m.decisions.size(); ++i)
      if (below(3) == 0) positions.push_back(i);
    return positions;
  };
  for (int64_t i = below(scale); i > 0; --i) {
    Kernel k;
    k.plan = text();
    k.unit = unit();
    k.percent = percent();
    k.decisions = decisions();
    k.name = name();
    k.kind = text();
    k.cache_key = text();
    k.body = below(2) == 0 ? text() : concat("line ", text(), "\n", text(), "\n  x\n\n y\n");
    k.flops = formula();
    k.bytes = formula();
    if (!m.archs.empty() && below(2) == 0) {
      k.launch.emplace();
      k.launch->function = concat("f", unique++);
      k.launch->grid = {formula(), formula(), Formula(1)};
      k.launch->block = {static_cast<int>(1 + below(1024)), 1, 1};
      k.launch->shared_bytes = formula();
      if (below(2) == 0) k.launch->workspace_bytes = formula();
      if (below(2) == 0) k.launch->counters = formula();
      k.launch->scalars = list(formula);
      k.launch->code_offset = below(1 << 30);
      k.launch->code_bytes = below(1 << 30);
      for (const std::string& arch : m.archs) {
        k.launch->resources.push_back({arch, static_cast<int>(below(256)), 0, static_cast<int>(below(9)), 0,
                                       static_cast<int>(below(32)), static_cast<double>(below(65)) / 64});
      }
    } else if (!m.archs.empty()) {
      k.matmul = MatmulCall{formula(), formula(),     formula(),
                            formula(), below(2) == 0, below(2) == 0,
                            formula(), formula(),     static_cast<DType>(below(dtype_count))};
      if (below(2) == 0) k.matmul->bias = static_cast<uint32_t>(below(4));
      if (below(2) == 0) k.matmul->residual = static_cast<uint32_t>(below(4));
    }
    m.kernels.push_back(k);
  }
  for (int64_t i = below(3); i > 0; --i) {
    Program p;
    p.name = name();
    auto tensor = [&] { return TensorSpec{name(), static_cast<DType>(below(dtype_count)), list(formula)}; };
    p.inputs = list(tensor);
    p.outputs = list(tensor);
    p.arena = list(formula);
    auto add_buffers = [&](BufferKind kind, size_t count) {
      for (size_t index = 0; index < count; ++index)
        p.buffers.push_back({kind, static_cast<uint32_t>(index), formula()});
    };
    add_buffers(BufferKind::output, p.outputs.size());
    add_buffers(BufferKind::arena, p.arena.size());
    const size_t writable = p.buffers.size();
    add_buffers(BufferKind::input, p.inputs.size());
    add_buffers(BufferKind::weight, m.weights.size());
    uint32_t counters = 0;
    std::vector<uint32_t> readable;  // a step writes each buffer of the arena before another reads it
    for (size_t i = 0; i < p.buffers.size(); ++i)
      if (p.buffers[i].kind != BufferKind::arena) readable.push_back(static_cast<uint32_t>(i));
    auto pick = [&](size_t count) { return static_cast<uint32_t>(below(static_cast<int>(count))); };
    for (int64_t s = below(scale); s > 0 && writable > 0 && !m.kernels.empty(); --s) {
      Step step{pick(m.kernels.size()), {}, {pick(writable)}, {}, list(text), decisions()};
      for (int operand = 0; operand < 2 && !readable.empty(); ++operand) {
        step.operands.push_back(readable[pick(readable.size())]);
        if (step.operands.back() == step.results[0]) step.operands.pop_back();
      }
      const auto& launch = m.kernels[step.kernel].launch;
      if (launch && launch->has_workspace()) {
        step.scratch.push_back(static_cast<uint32_t>(p.buffers.size()));
        p.buffers.push_back({BufferKind::arena, static_cast<uint32_t>(p.arena.size()), formula()});
        p.arena.push_back(formula());
      }
      if (launch && launch->has_counters()) {
        step.scratch.push_back(static_cast<uint32_t>(p.buffers.size()));
        p.buffers.push_back({BufferKind::counters, counters++, formula()});
      }
      if (p.buffers[step.results[0]].kind == BufferKind::arena) readable.push_back(step.results[0]);
      p.steps.push_back(std::move(step));
    }
    m.programs.push_back(p);
  }
  return m;
}

}  // namespace rtx::package
