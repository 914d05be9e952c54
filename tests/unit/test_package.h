// A small package made in memory, for tests of the runtime:
//
//   main(x: f32[batch, n]) -> y: f32[batch, n]     t = add(x, w); y = double(t)
//
// with `t` in the arena and w: f32[4], the second of two tensors of a weights file. add cycles through w.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "base/sha256.h"
#include "runtime/package/package.h"
#include "tests/temp_folder.h"
#include "tests/unit/fake_device.h"

namespace rtx {

inline package::Formula formula(std::string_view text) {
  static const std::vector<std::string> symbols = {"batch", "n"};
  return package::Formula::parse(text, symbols).value();
}

inline package::Package make_test_package(const TempFolder& folder) {
  using namespace package;
  Package package;
  package.path = folder.path();
  Manifest& m = package.manifest;
  m.producer = "test";
  m.symbols = {{.name = "batch", .min = 1, .max = 8, .opt = 2}, {.name = "n", .min = 0, .max = 1000, .opt = 0}};
  m.weights = {"w"};

  const std::string path = folder.path() + "/weights.safetensors";
  const std::vector<SafetensorsTensor> tensors = {
      {.name = "unused", .dtype = DType::u8, .shape = {3}, .bytes = 3},
      {.name = "w", .dtype = DType::f32, .shape = {4}, .bytes = 16},
  };
  const float w[4] = {10, 20, 30, 40};
  (void)write_safetensors(path, tensors, [&](size_t i, int64_t offset, std::span<std::byte> out) -> Result<void> {
    if (i == 0)
      std::memset(out.data(), 7, out.size());
    else
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(w) + offset, out.size());
    return Ok{};
  }).ok();
  package.weights_file = File::open(path).value();
  package.weights_index = read_safetensors_index(*package.weights_file).value();
  m.files = {{.name = "weights.safetensors",
              .bytes = package.weights_file->size(),
              .sha256 = sha256_hex(*package.weights_file).value()}};

  Kernel add;
  add.name = "add";
  Kernel twice;
  twice.name = "double";
  m.kernels = {add, twice};

  Program main;
  main.name = "main";
  main.inputs = {{.name = "x", .dtype = DType::f32, .shape = {formula("batch"), formula("n")}}};
  main.outputs = {{.name = "y", .dtype = DType::f32, .shape = {formula("batch"), formula("n")}}};
  main.arena = {formula("4"), formula("4*batch*n")};
  main.buffers = {{BufferKind::input, 0, formula("4*batch*n")},
                  {BufferKind::weight, 0, formula("16")},
                  {BufferKind::arena, 1, formula("4*batch*n")},
                  {BufferKind::output, 0, formula("4*batch*n")}};
  main.steps = {{.kernel = 0, .operands = {0, 1}, .results = {2}, .origins = {"Add_1"}},
                {.kernel = 1, .operands = {2}, .results = {3}, .origins = {"Mul_2", "Mul_3"}}};
  m.programs = {main};
  return package;
}

// Gives the step of `add` a workspace of 4*batch*n bytes, a piece that step 1 does not use, and batch counters.
inline void add_scratch(package::Package& package) {
  using namespace package;
  Launch launch;
  launch.function = "add_it";
  launch.workspace_bytes = formula("4*batch*n");
  launch.counters = formula("batch");
  package.manifest.kernels[0].launch = launch;
  Program& main = package.manifest.programs[0];
  main.arena[0] = formula("4*batch*n");
  main.buffers.push_back({BufferKind::arena, 0, formula("4*batch*n")});
  main.buffers.push_back({BufferKind::counters, 0, formula("4*batch")});
  main.steps[0].scratch = {4, 5};
}

// The kernels of the package for a fake device.
inline void add_test_kernels(runtime::FakeDevice& device) {
  using runtime::DevicePointer;
  const auto floats = [](DevicePointer address) { return reinterpret_cast<float*>(address); };
  device.kernels["add"] = [=](std::span<const DevicePointer> b, std::span<const int64_t> symbols) {
    for (int64_t i = 0; i < symbols[0] * symbols[1]; ++i) floats(b[2])[i] = floats(b[0])[i] + floats(b[1])[i % 4];
  };
  device.kernels["double"] = [=](std::span<const DevicePointer> b, std::span<const int64_t> symbols) {
    for (int64_t i = 0; i < symbols[0] * symbols[1]; ++i) floats(b[1])[i] = 2 * floats(b[0])[i];
  };
}

}  // namespace rtx
