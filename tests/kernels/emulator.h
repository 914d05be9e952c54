// Runs generated CUDA text on the CPU: the text of all kernels is compiled by the C++ compiler behind a small shim and
// loaded. What this shows is that the text computes what the body says; not that the GPU's compiler agrees.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_plan.h"
#include "ir/evaluate.h"

namespace rtx::testing {

class Emulator {
 public:
  ~Emulator();
  // The number by which run() knows the kernel. The plan must have a launch.
  size_t add(const codegen::KernelPlan& plan, const Block& body);
  // Compiles everything added; an error holds the compiler's messages. False from available(): there is no compiler.
  static bool available();
  Result<void> build();
  // Bytes around each buffer are checked: a kernel that writes outside gives an error, and so does one that leaves a
  // counter other than zero. The workspace is poisoned.
  Result<std::vector<Tensor>> run(size_t kernel, const std::vector<Tensor>& operands,
                                  const SymbolValues& symbols) const;

 private:
  struct Entry {
    codegen::KernelPlan plan;
    std::vector<Type> results;
  };
  std::vector<Entry> entries_;
  std::string source_;
  void* library_ = nullptr;
};

}  // namespace rtx::testing
