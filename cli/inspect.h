// The views of rtx-inspect.
#pragma once

#include <span>
#include <string>

#include "runtime/package/package.h"

namespace rtx::cli {

// What the text view shows beside its summary.
struct Sections {
  bool kernels = false, plan = false, memory = false, weights = false;
};

// `symbols` is the binding for which sizes are given, in manifest order.
std::string inspect_text(const package::Package& package, std::span<const int64_t> symbols, const Sections& sections);

// One object, indented by two; keys in a fixed order. Estimates are for `gpu`.
std::string inspect_json(const package::Package& package, std::span<const int64_t> symbols, const package::Gpu& gpu);

// "input x", "weight 'w'", "arena[3]", "output y"
std::string buffer_text(const package::Manifest& manifest, const package::Program& program, uint32_t buffer);

// "main for batch=1, seq=128"
std::string variant_text(const package::Manifest& manifest, const package::Variant& variant);

// "12.5 KiB"
std::string size_text(int64_t bytes);

// The pieces of a program's arena, and a map of it: a line a step, a column an equal part of the arena.
std::string arena_text(const package::Program& program, std::span<const int64_t> symbols);

// How often a program runs each kernel, summed over the programs.
std::vector<int64_t> count_launches(const package::Manifest& manifest);

}  // namespace rtx::cli
