// A package for the CPU device, written by hand:
//
//   main(x: f32[batch, 4], k: i64[batch]) -> sum: f32[batch, 4], k2: i64[batch]     sum = x + w + w; k2 = k + k
//   half(h: bf16[n]) -> d: bf16[n]                                                  d = h + h
//
// with w = 10, 20, 30, 40; batch from 1 to 8, planned for 2; n from 0 to 1000.
#pragma once

#include <filesystem>
#include <string>

#include "base/sha256.h"
#include "runtime/package/package.h"

namespace rtx {

inline package::Manifest hand_made_manifest() {
  using namespace package;
  const std::vector<std::string> symbols = {"batch", "n"};
  const auto f = [&](std::string_view text) { return Formula::parse(text, symbols).value(); };
  const auto kernel = [&](std::string name, std::string arguments, std::string result, std::string_view bytes) {
    Kernel k;
    k.name = std::move(name);
    k.kind = "pointwise";
    k.cache_key = sha256_hex(arguments + result);
    k.body = "(" + arguments + ") {\n  %2 = add(%0, %1) : " + result + "\n  yield(%2)\n}\n";
    k.flops = f("1");
    k.bytes = f(bytes);
    return k;
  };
  Manifest m;
  m.producer = "hand";
  m.symbols = {{.name = "batch", .min = 1, .max = 8, .opt = 2}, {.name = "n", .min = 0, .max = 1000, .opt = 0}};
  m.weights = {"w"};
  m.kernels = {
      kernel("add_w", "%0: tensor<[batch, 4], f32>, %1: tensor<[4], f32>", "tensor<[batch, 4], f32>", "32*batch"),
      kernel("add_k", "%0: tensor<[batch], i64>, %1: tensor<[batch], i64>", "tensor<[batch], i64>", "24*batch"),
      kernel("add_h", "%0: tensor<[n], bf16>, %1: tensor<[n], bf16>", "tensor<[n], bf16>", "6*n")};
  Program main;
  main.name = "main";
  main.inputs = {{.name = "x", .dtype = DType::f32, .shape = {f("batch"), f("4")}},
                 {.name = "k", .dtype = DType::i64, .shape = {f("batch")}}};
  main.outputs = {{.name = "sum", .dtype = DType::f32, .shape = {f("batch"), f("4")}},
                  {.name = "k2", .dtype = DType::i64, .shape = {f("batch")}}};
  main.arena = {f("16*batch")};
  main.buffers = {{BufferKind::input, 0, f("16*batch")},  {BufferKind::input, 1, f("8*batch")},
                  {BufferKind::weight, 0, f("16")},       {BufferKind::arena, 0, f("16*batch")},
                  {BufferKind::output, 0, f("16*batch")}, {BufferKind::output, 1, f("8*batch")}};
  main.steps = {{.kernel = 0, .operands = {0, 2}, .results = {3}, .origins = {"/layer.0/Add"}},
                {.kernel = 0, .operands = {3, 2}, .results = {4}, .origins = {"/layer.1/Add"}},
                {.kernel = 1, .operands = {1, 1}, .results = {5}, .origins = {"Mul_2", "Cast_3"}}};
  Program half;
  half.name = "half";
  half.inputs = {{.name = "h", .dtype = DType::bf16, .shape = {f("n")}}};
  half.outputs = {{.name = "d", .dtype = DType::bf16, .shape = {f("n")}}};
  half.buffers = {{BufferKind::input, 0, f("2*n")}, {BufferKind::output, 0, f("2*n")}};
  half.steps = {{.kernel = 2, .operands = {0, 0}, .results = {1}, .origins = {}}};
  m.programs = {main, half};
  return m;
}

// Writes the weights into the folder `path`, lists them in the manifest and writes that.
inline void write_hand_made_package(const std::string& path, package::Manifest manifest = hand_made_manifest()) {
  std::filesystem::create_directories(path);
  const float w[4] = {10, 20, 30, 40};
  const std::vector<SafetensorsTensor> tensors = {{.name = "w", .dtype = DType::f32, .shape = {4}, .bytes = 16}};
  const std::string weights = path + "/weights.safetensors";
  (void)write_safetensors(weights, tensors, [&](size_t, int64_t offset, std::span<std::byte> out) -> Result<void> {
    std::copy_n(reinterpret_cast<const std::byte*>(w) + offset, out.size(), out.begin());
    return Ok{};
  }).ok();
  const auto file = File::open(weights).value();
  manifest.files = {{.name = "weights.safetensors", .bytes = file->size(), .sha256 = sha256_hex(*file).value()}};
  (void)write_file(path + "/manifest.yaml", to_yaml(manifest)).ok();
}

}  // namespace rtx
