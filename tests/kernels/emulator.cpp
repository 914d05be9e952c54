#include "tests/kernels/emulator.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "codegen/emit/c_types.h"

namespace rtx::testing {
namespace {

constexpr size_t guard_bytes = 64;
constexpr std::byte guard{0xA5};

Result<std::vector<int64_t>> concrete_shape(const Shape& shape, const SymbolValues& symbols) {
  std::vector<int64_t> concrete;
  for (const Dim& dim : shape) {
    RTX_ASSIGN(int64_t value, dim.evaluate(symbols));
    concrete.push_back(value);
  }
  return concrete;
}

// The most dynamic shared memory that a block may ask for on every architecture.
constexpr int64_t most_shared_bytes = 99 << 10;

// The text without the functions that the shim defines, and with kernels that are local to their namespace: one text
// may be added twice. Dynamic shared memory becomes an array.
std::string for_the_shim(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("extern \"C\" ")) line.erase(0, std::strlen("extern \"C\" "));
    if (const size_t at = line.find("extern __shared__ "); at != std::string::npos) {
      line.replace(at, std::strlen("extern "), "");
      line.replace(line.find("[]"), 2, concat("[", most_shared_bytes, "]"));
    }
    if (line.find("asm(") == std::string::npos && line.find("asm volatile(") == std::string::npos) kept += line + "\n";
  }
  return kept;
}

}  // namespace

Emulator::~Emulator() {
  if (library_) dlclose(library_);
}

bool Emulator::available() { return std::system("c++ --version >/dev/null 2>&1") == 0; }

size_t Emulator::add(const codegen::KernelPlan& plan, const Block& body) {
  const size_t number = entries_.size();
  std::string call = concat("extern \"C\" void call_", number, "(void** a) {\n  ", plan.launch->function, "(");
  std::vector<std::string> arguments;
  for (size_t i = 0; i < body.argument_count(); ++i) {
    arguments.push_back(
        concat("(const ", codegen::memory_type(body.argument(i)->type.dtype), "*)a[", arguments.size(), "]"));
  }
  std::vector<Type> results;
  for (const Value* result : body.terminator()->operands()) {
    arguments.push_back(concat("(", codegen::memory_type(result->type.dtype), "*)a[", arguments.size(), "]"));
    results.push_back(result->type);
  }
  if (plan.launch->has_workspace()) arguments.push_back(concat("(unsigned char*)a[", arguments.size(), "]"));
  if (plan.launch->has_counters()) arguments.push_back(concat("(unsigned int*)a[", arguments.size(), "]"));
  for (size_t i = 0; i < plan.launch->scalars.size(); ++i) {
    arguments.push_back(concat("*(long long*)a[", arguments.size(), "]"));
  }
  source_ +=
      concat("namespace k", number, " {\n", for_the_shim(plan.launch->text), call, join(arguments, ", "), ");\n}\n}\n");
  entries_.push_back({plan, std::move(results)});
  return number;
}

Result<void> Emulator::build() {
  char folder[] = "/tmp/rtx_emulator_XXXXXX";
  if (!mkdtemp(folder)) return make_error(ErrorKind::io, "E901", "no temporary folder");
  const std::string base = folder, shim = concat(RTX_TEST_DIR, "/kernels/cuda_shim.h");
  RTX_TRY(write_file(base + "/kernels.cpp", concat("#include \"", shim, "\"\n", source_)));
  // -fno-strict-aliasing: vector loads read elements through a struct type, which CUDA allows.
  const std::string command = concat("c++ -std=c++17 -O0 -w -fPIC -shared -ffp-contract=off -fno-strict-aliasing -o ",
                                     base, "/kernels.so ", base, "/kernels.cpp >", base, "/log 2>&1");
  const int status = std::system(command.c_str());
  Result<std::string> log = read_text_file(base + "/log", 1 << 20);
  if (status == 0) library_ = dlopen((base + "/kernels.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!std::getenv("RTX_KEEP_EMULATED")) {
    std::system(concat("rm -r ", base).c_str());
  }
  if (!library_)
    return make_error(ErrorKind::internal, "E999", concat("generated text does not compile:\n", log ? *log : ""));
  return Ok{};
}

Result<std::vector<Tensor>> Emulator::run(size_t kernel, const std::vector<Tensor>& operands,
                                          const SymbolValues& symbols) const {
  const Entry& entry = entries_[kernel];
  const codegen::LaunchPlan& launch = *entry.plan.launch;
  std::vector<std::vector<std::byte>> buffers;
  auto add_buffer = [&](const std::vector<std::byte>& bytes) {
    std::vector<std::byte> buffer(bytes.size() + 2 * guard_bytes, guard);
    std::copy(bytes.begin(), bytes.end(), buffer.begin() + guard_bytes);
    buffers.push_back(std::move(buffer));
  };
  for (const Tensor& operand : operands) add_buffer(operand.bytes);
  std::vector<Tensor> results;
  for (const Type& type : entry.results) {
    RTX_ASSIGN(std::vector<int64_t> shape, concrete_shape(type.shape, symbols));
    results.emplace_back(type.dtype, shape);
    add_buffer(std::vector<std::byte>(results.back().bytes.size(), std::byte{0xEE}));  // what is not written shows
  }
  if (launch.has_workspace()) {
    RTX_ASSIGN(const int64_t bytes, launch.workspace_bytes.evaluate(symbols));
    add_buffer(std::vector<std::byte>(static_cast<size_t>(bytes), std::byte{0xEE}));
  }
  if (launch.has_counters()) {
    RTX_ASSIGN(const int64_t count, launch.counters.evaluate(symbols));
    add_buffer(std::vector<std::byte>(static_cast<size_t>(count) * 4, std::byte{0}));
  }
  std::vector<long long> scalars;
  for (const Dim& scalar : launch.scalars) {
    RTX_ASSIGN(int64_t value, scalar.evaluate(symbols));
    scalars.push_back(value);
  }
  std::vector<void*> arguments;
  for (auto& buffer : buffers) arguments.push_back(buffer.data() + guard_bytes);
  for (long long& scalar : scalars) arguments.push_back(&scalar);
  RTX_ASSIGN(const int64_t shared_bytes, launch.shared_bytes.evaluate(symbols));
  if (shared_bytes > most_shared_bytes)
    return make_error(ErrorKind::internal, "E999", concat(launch.function, " wants ", shared_bytes, " shared bytes"));
  unsigned grid[3];
  for (size_t i = 0; i < 3; ++i) {
    RTX_ASSIGN(int64_t size, launch.grid[i].evaluate(symbols));
    grid[i] = static_cast<unsigned>(size);
  }
  auto call = reinterpret_cast<void (*)(void**)>(dlsym(library_, concat("call_", kernel).c_str()));
  auto start = reinterpret_cast<void (*)(void (*)(void**), void**, const unsigned*, const int*, int)>(
      dlsym(library_, "emulated_launch"));
  bool meets = false;
  for (const char* name : {"__shfl", "__sync", "__ballot", "rtx_mma", "rtx_load_tiles"})
    meets = meets || launch.text.find(name) != std::string::npos;
  start(call, arguments.data(), grid, launch.block.data(), meets);

  for (const auto& buffer : buffers) {
    for (size_t i = 0; i < guard_bytes; ++i) {
      if (buffer[i] != guard || buffer[buffer.size() - 1 - i] != guard) {
        return make_error(ErrorKind::internal, "E999", concat(launch.function, " writes outside a buffer"));
      }
    }
  }
  if (launch.has_counters()) {
    const auto& counters = buffers.back();
    if (!std::all_of(counters.begin() + guard_bytes, counters.end() - guard_bytes,
                     [](std::byte byte) { return byte == std::byte{0}; }))
      return make_error(ErrorKind::internal, "E999", concat(launch.function, " leaves a counter that is not zero"));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& buffer = buffers[operands.size() + i];
    std::copy(buffer.begin() + guard_bytes, buffer.end() - guard_bytes, results[i].bytes.begin());
  }
  return results;
}

}  // namespace rtx::testing
