// Attention on a GPU: every form against the CPU device, the same bits again and in a smaller batch; then speed.
//
//   attention_gpu                      builds packages for this GPU in a temporary folder and runs them
//   attention_gpu --build DIR [ARCH]   builds DIR/check.rtxpkg and DIR/speed.rtxpkg (sm_90a); needs no GPU
//   attention_gpu DIR                  runs packages built so
//
// Exit code 7: no GPU.

#include <cstdio>
#include <cstring>
#include <thread>

#include "base/text.h"
#include "codegen/build_package.h"
#include "codegen/nvrtc_worker.h"
#include "ir/text.h"
#include "runtime/compare.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda_device.h"
#include "runtime/random_tensor.h"
#include "runtime/session.h"
#include "tests/temp_folder.h"

namespace rtx::testing {
namespace {

struct Sample {
  std::string name;
  DType dtype = DType::f16;
  int64_t heads = 4, kv_heads = 4, size = 64, value_size = 64;
  int64_t batch = 2, queries = 77, keys = 203;
  std::string attributes = "causal = false, offset = 0, window = 0, fill = -inf, guard = false";
  double softcap = 0;
  std::vector<std::string> masks = {};  // types, with B, Q and K for the axes
  bool joined = false;                  // heads beside the elements in memory
  bool one_query = false;               // the number of queries is 1 in the module too
  bool planned = false;                 // the sizes are those that are planned for
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// A module with one program a sample; its axes are symbols of its own.
std::string module_text(const std::vector<Sample>& samples) {
  std::string symbols, programs;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    const std::string b = concat("b", i), q = s.one_query ? "1" : concat("q", i), k = concat("k", i);
    const std::pair<std::string, int64_t> axes[] = {{b, s.batch}, {q, s.queries}, {k, s.keys}};
    for (const auto& [name, length] : axes) {
      if (name == "1") continue;
      symbols += concat("symbol ", name, " 1..16384", s.planned ? concat(" opt ", length) : std::string(), "\n");
    }
    const std::string type = std::string(to_string(s.dtype));
    std::vector<std::string> parameters, operands, body;
    auto add = [&](const std::string& length, int64_t heads, int64_t size) {
      const size_t number = parameters.size();
      const std::string by_length = concat("[", b, ", ", length, ", ", heads, ", ", size, "]");
      const std::string by_head = concat("[", b, ", ", heads, ", ", length, ", ", size, "]");
      parameters.push_back(
          concat("%", number, " \"x", number, "\": tensor<", s.joined ? by_length : by_head, ", ", type, ">"));
      operands.push_back(concat("%", number));
      if (!s.joined) return;
      body.push_back(concat("  %t", number, " = transpose(%", number, ") {perm = [0, 2, 1, 3]} : tensor<", by_head,
                            ", ", type, ">\n"));
      operands.back() = concat("%t", number);
    };
    add(q, s.heads, s.size);
    add(k, s.kv_heads, s.size);
    add(k, s.kv_heads, s.value_size);
    for (const std::string& mask : s.masks) {
      const size_t number = parameters.size();
      const std::string shape = replaced(replaced(replaced(mask, "B", b), "Q", q), "K", k);
      parameters.push_back(concat("%", number, " \"x", number, "\": tensor<", shape, ">"));
      operands.push_back(concat("%", number));
    }
    const std::string result = concat("tensor<[", b, ", ", s.heads, ", ", q, ", ", s.value_size, "], ", type, ">");
    programs += concat("func @p", i, "(", join(parameters, ", "), ") {\n", join(body, ""), "  %y = attention(",
                       join(operands, ", "), ") {scale = 0.125, softcap = ", s.softcap, ", ",
                       replaced(s.attributes, "K - Q", concat(k, " - ", q)), "} : ", result,
                       "\n  yield(%y)\n} outputs \"y\"\n");
  }
  // Names of values are numbers.
  std::string text = concat("rtxir 1\nstage canonical\n", symbols, programs);
  for (int number = 0; number < 3; ++number) text = replaced(text, concat("%t", number), concat("%", 10 + number));
  return replaced(text, "%y", "%20");
}

std::vector<Sample> checked() {
  const std::string causal = "causal = true, offset = K - Q, window = 0, fill = -inf, guard = false";
  std::vector<Sample> samples;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (int64_t size : {16, 20, 32, 64, 80, 96, 128, 160, 192, 256}) {
      Sample s;
      s.dtype = dtype;
      s.size = s.value_size = size;
      auto add = [&](const std::string& form) {
        s.name = concat(to_string(dtype), " ", size, "/", s.value_size, " ", form);
        samples.push_back(s);
      };
      add("plain");
      s.joined = true;
      s.attributes = causal;
      s.kv_heads = 2;
      add("causal, groups of 2, joined");
      s.softcap = 5;
      s.attributes = "causal = true, offset = K - Q, window = 40, fill = -inf, guard = false";
      add("window, softcap");
      s.softcap = 0;
      s.kv_heads = 4;
      s.attributes = "causal = false, offset = 0, window = 0, fill = -3.4028234663852886e+38, guard = false";
      s.masks = {"[B, 1, 1, K], bool"};
      add("padding");
      s.masks = {concat("[1, 4, Q, K], ", to_string(dtype))};
      s.value_size = size == 64 ? 40 : size;
      add("bias");
    }
    Sample s;
    s.dtype = dtype;
    s.attributes = "causal = true, offset = -5, window = 0, fill = -inf, guard = true";
    s.masks = {"[Q, K], bool"};
    s.name = concat(to_string(dtype), " rows without keys");
    samples.push_back(s);
    s = {};
    s.dtype = dtype;
    s.name = concat(to_string(dtype), " large blocks");
    s.joined = s.planned = true;
    s.batch = 8, s.heads = s.kv_heads = 16, s.queries = s.keys = 350;
    s.masks = {"[B, 1, 1, K], bool"};
    samples.push_back(s);
    for (int64_t group : {1, 4, 8}) {
      s = {};
      s.dtype = dtype;
      s.name = concat(to_string(dtype), " one query, groups of ", group);
      s.kv_heads = 2, s.heads = 2 * group, s.size = s.value_size = 128;
      s.queries = 1, s.keys = 1111;
      s.one_query = true;
      s.attributes = causal;
      samples.push_back(s);
      s.name += ", padding";
      s.masks = {"[B, 1, 1, K], bool"};
      samples.push_back(s);
    }
  }
  return samples;
}

std::vector<Sample> timed() {
  Sample s;
  s.dtype = DType::bf16;
  s.planned = s.joined = true;
  std::vector<Sample> samples;
  auto add = [&](const std::string& name, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                 int64_t size) {
    s.name = name;
    s.batch = batch, s.heads = heads, s.kv_heads = kv_heads, s.queries = queries, s.keys = keys;
    s.size = s.value_size = size;
    s.one_query = queries == 1;
    samples.push_back(s);
  };
  add("b32 h16 s512 d64", 32, 16, 16, 512, 512, 64);
  s.masks = {"[B, 1, 1, K], bool"};
  s.attributes = "causal = false, offset = 0, window = 0, fill = -3.4028234663852886e+38, guard = false";
  add("b32 h16 s512 d64, padding mask", 32, 16, 16, 512, 512, 64);
  s.masks.clear();
  // As the first, but in blocks of 64 rows.
  s.attributes = "causal = true, offset = 16384, window = 0, fill = -inf, guard = false";
  add("b32 h16 s512 d64, blocks of 64 rows", 32, 16, 16, 512, 512, 64);
  s.attributes = Sample().attributes;
  add("b16 h32 s1024 d128", 16, 32, 32, 1024, 1024, 128);
  add("b1 h12 s128 d64", 1, 12, 12, 128, 128, 64);
  s.attributes = "causal = true, offset = K - Q, window = 0, fill = -inf, guard = false";
  add("causal b1 h32/8 s2048 d128", 1, 32, 8, 2048, 2048, 128);
  add("causal b16 h32/8 s1024 d128", 16, 32, 8, 1024, 1024, 128);
  for (int64_t batch : {1, 8, 64}) {
    s.joined = false;
    add(concat("one query b", batch, " h32/8 keys 2048 d128"), batch, 32, 8, 1, 2048, 128);
  }
  s.dtype = DType::f32;
  s.joined = true;
  s.attributes = Sample().attributes;
  add("f32 b8 h12 s128 d64", 8, 12, 12, 128, 128, 64);
  s.joined = false;
  add("f32 one query b8 h12 keys 1024 d64", 8, 12, 12, 1, 1024, 64);
  return samples;
}

Result<void> build(const std::vector<Sample>& samples, const std::string& path, const std::string& arch) {
  RTX_ASSIGN(const std::unique_ptr<Module> module, parse_module(module_text(samples), "attention"));
  codegen::BuildOptions options;
  options.archs = {arch};
  options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return codegen::build_package(*module, path, options);
}

Result<std::vector<runtime::HostTensor>> inputs_of(const package::Program& program, const Sample& s, int64_t batch) {
  std::vector<runtime::HostTensor> inputs;
  const int64_t lengths[] = {s.queries, s.keys, s.keys}, heads[] = {s.heads, s.kv_heads, s.kv_heads};
  const int64_t sizes[] = {s.size, s.size, s.value_size};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    std::vector<int64_t> shape;
    DType dtype = s.dtype;
    if (i < 3) {
      shape = s.joined ? std::vector{batch, lengths[i], heads[i], sizes[i]}
                       : std::vector{batch, heads[i], lengths[i], sizes[i]};
    } else {
      const std::string& mask = s.masks[i - 3];
      if (mask.find("bool") != std::string::npos) dtype = DType::boolean;
      if (mask.find("[B, 1, 1, K]") == 0) shape = {batch, 1, 1, s.keys};
      if (mask.find("[1, 4, Q, K]") == 0) shape = {1, 4, s.queries, s.keys};
      if (mask.find("[Q, K]") == 0) shape = {s.queries, s.keys};
    }
    const runtime::RandomRange range{.float_low = -1, .float_high = 1};
    RTX_ASSIGN(runtime::HostTensor tensor, runtime::random_tensor(dtype, shape, 7, i, range));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// Returns what is wrong; empty if nothing.
Result<std::string> check(runtime::Model& gpu, runtime::Model& cpu, size_t number, const Sample& s) {
  const std::string program = concat("p", number);
  RTX_ASSIGN(const auto session, runtime::Session::create(gpu, program));
  RTX_ASSIGN(const auto reference, runtime::Session::create(cpu, program));
  RTX_ASSIGN(std::vector<runtime::HostTensor> inputs, inputs_of(session->program(), s, s.batch));
  RTX_ASSIGN(const auto got, session->run(inputs));
  RTX_ASSIGN(const auto again, session->run(inputs));
  RTX_ASSIGN(const auto want, reference->run(inputs));
  if (got[0].bytes != again[0].bytes) return std::string("other bits in a second run");
  const runtime::Comparison compared = runtime::compare(got[0], want[0], runtime::default_tolerance(s.dtype));
  if (!compared.ok) {
    return concat("error norm ", compared.norm, ", ", compared.far, " elements far, worst ", compared.worst_actual,
                  " for ", compared.worst_expected, " at ", runtime::index_text(compared.worst, got[0].shape), ", ",
                  compared.nans_actual, " NaN for ", compared.nans_expected);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape.size() < 4 || inputs[i].shape[0] != s.batch) continue;
    inputs[i].bytes.resize(inputs[i].bytes.size() / static_cast<size_t>(s.batch));
    inputs[i].shape[0] = 1;
  }
  RTX_ASSIGN(const auto alone, session->run(inputs));
  if (std::memcmp(alone[0].bytes.data(), got[0].bytes.data(), alone[0].bytes.size()) != 0)
    return std::string("other bits in a batch of 1");
  return std::string();
}

Result<void> measure(runtime::Model& model, size_t number, const Sample& s) {
  RTX_ASSIGN(const auto session, runtime::Session::create(model, concat("p", number)));
  RTX_ASSIGN(const std::vector<runtime::HostTensor> inputs, inputs_of(session->program(), s, s.batch));
  RTX_TRY(session->bind(inputs));
  RTX_TRY(session->upload(inputs));
  RTX_ASSIGN(const auto begin, model.device().create_event());
  RTX_ASSIGN(const auto end, model.device().create_event());
  double best_ns = 1e30;
  for (int round = 0; round < 6; ++round) {
    constexpr int launches = 20;
    RTX_TRY(begin->record(session->stream()));
    for (int i = 0; i < launches; ++i) RTX_TRY(session->execute());
    RTX_TRY(end->record(session->stream()));
    RTX_ASSIGN(const double elapsed_ns, end->elapsed_ns_since(*begin));
    best_ns = std::min(best_ns, elapsed_ns / launches);
  }
  RTX_TRY(session->synchronize());
  const bool causal = s.attributes.find("offset = K - Q") != std::string::npos && s.queries > 1;
  const double products = 2.0 * static_cast<double>(s.batch * s.heads * s.queries * s.keys * (s.size + s.value_size)) *
                          (causal ? 0.5 : 1.0);
  double bytes = static_cast<double>(s.batch * s.heads * s.queries * s.value_size * bit_width(s.dtype) / 8);
  for (const runtime::HostTensor& input : inputs) bytes += static_cast<double>(input.bytes.size());
  std::printf("%-44s %9.1f us %8.1f TFLOP/s %8.1f GB/s\n", s.name.c_str(), best_ns / 1e3, products / best_ns / 1e3,
              bytes / best_ns);
  return Ok{};
}

std::string code_for(const std::string& arch) { return arch == "sm_90" ? "sm_90a" : arch; }

Result<int> run(std::string folder, runtime::Device& device) {
  const std::vector<Sample> samples = checked(), speed = timed();
  TempFolder temporary;
  if (folder.empty()) {
    folder = temporary.path();
    RTX_TRY(build(samples, folder + "/check.rtxpkg", code_for(device.info().arch)));
    RTX_TRY(build(speed, folder + "/speed.rtxpkg", code_for(device.info().arch)));
  }
  const auto cpu = runtime::make_cpu_device();
  int wrong = 0;
  {
    RTX_ASSIGN(const auto on_gpu, runtime::Model::load(folder + "/check.rtxpkg", device));
    RTX_ASSIGN(const auto on_cpu, runtime::Model::load(folder + "/check.rtxpkg", *cpu));
    for (size_t i = 0; i < samples.size(); ++i) {
      Result<std::string> fault = check(*on_gpu, *on_cpu, i, samples[i]);
      const std::string text = fault ? *fault : to_string(fault.error().first());
      if (!text.empty()) std::printf("WRONG %s: %s\n", samples[i].name.c_str(), text.c_str());
      wrong += text.empty() ? 0 : 1;
    }
  }
  std::printf("%zu forms of attention on %s, %d wrong\n", samples.size(), device.info().name.c_str(), wrong);
  RTX_ASSIGN(const auto model, runtime::Model::load(folder + "/speed.rtxpkg", device));
  for (size_t i = 0; i < speed.size(); ++i) RTX_TRY(measure(*model, i, speed[i]));
  return wrong == 0 ? 0 : 1;
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s", to_string(error.first()).c_str());
  return 1;
}

}  // namespace
}  // namespace rtx::testing

int main(int argc, char** argv) {
  using namespace rtx;
  using namespace rtx::testing;
  if (argc == 3 && argv[1] == codegen::nvrtc_worker_argument) return codegen::nvrtc_worker_main(argv[2]);
  if (argc >= 3 && std::string_view(argv[1]) == "--build") {
    const std::string folder = argv[2], arch = argc > 3 ? argv[3] : "sm_90a";
    std::filesystem::create_directories(folder);
    for (const auto& [samples, name] : {std::pair(checked(), "check"), {timed(), "speed"}}) {
      if (Result<void> built = build(samples, concat(folder, "/", name, ".rtxpkg"), arch); !built)
        return fail(built.error());
    }
    return 0;
  }
  auto driver = runtime::load_cuda_driver();
  auto device = driver ? runtime::CudaDevice::open(*driver, 0) : Error(driver.error());
  if (!device) {
    std::fprintf(stderr, "skipped: %s\n", device.error().first().message.c_str());
    return 7;
  }
  Result<int> result = run(argc > 1 ? argv[1] : "", **device);
  return result ? *result : fail(result.error());
}
