#include "tests/property/plan_runner.h"

#include <cstring>

#include "base/text.h"

namespace rtx::testing {
namespace {

using package::BufferKind;

class PlanRunner {
 public:
  PlanRunner(const Module& module, const codegen::ModulePlan& plan, const std::vector<Tensor>& inputs,
             const SymbolValues& symbols)
      : module_(module), plan_(plan), program_(plan.programs[0]), inputs_(inputs), symbols_(symbols) {}

  Result<std::vector<Tensor>> run(const KernelFunction& kernel) {
    const Function& function = *module_.functions[0];
    RTX_TRY(make_memory());
    size_t next = 0;
    for (const auto& operation : function.block.operations()) {
      if (!operation->is(Op::fusion)) continue;
      const codegen::StepPlan& step = program_.steps[next++];
      std::vector<Tensor> operands;
      for (size_t i = 0; i < step.operands.size(); ++i) {
        RTX_ASSIGN(Tensor operand, read(step.operands[i], operation->operand(i)->type));
        operands.push_back(std::move(operand));
      }
      RTX_ASSIGN(const std::vector<Tensor> results, kernel(step.kernel, *operation->body(), operands));
      for (size_t i = 0; i < results.size(); ++i) {
        std::vector<std::byte>& memory = *places_[step.results[i]].memory;
        const int64_t offset = places_[step.results[i]].offset;
        if (offset + static_cast<int64_t>(results[i].bytes.size()) > static_cast<int64_t>(memory.size())) {
          return make_error(ErrorKind::internal, "E999", "a result does not fit its buffer");
        }
        std::copy(results[i].bytes.begin(), results[i].bytes.end(), memory.begin() + offset);
      }
    }
    std::vector<Tensor> outputs;
    for (const Value* output : function.block.terminator()->operands()) {
      RTX_ASSIGN(Tensor tensor, read(program_.memory.buffer_of.at(output), output->type));
      outputs.push_back(std::move(tensor));
    }
    return outputs;
  }

 private:
  struct Place {
    std::vector<std::byte>* memory;
    int64_t offset;
  };

  Result<void> make_memory() {
    std::vector<int64_t> sizes;
    for (const Dim& piece : program_.memory.arena) {
      RTX_ASSIGN(const int64_t bytes, piece.evaluate(symbols_));
      sizes.push_back(bytes);
    }
    const auto& lives = program_.memory.lives;
    RTX_ASSIGN(const package::ArenaLayout layout, package::lay_out_pieces(package::pieces_below(lives), lives, sizes));
    constexpr std::byte poison{0x77};
    arena_.assign(static_cast<size_t>(layout.bytes), poison);
    // Filled before addresses of elements are taken.
    own_.reserve(program_.memory.buffers.size());
    for (const codegen::BufferPlan& buffer : program_.memory.buffers) {
      RTX_ASSIGN(const int64_t bytes, buffer.bytes.evaluate(symbols_));
      if (buffer.kind == BufferKind::arena) {
        places_.push_back({&arena_, layout.offsets[buffer.index]});
        continue;
      }
      if (buffer.kind == BufferKind::input) own_.push_back(inputs_[buffer.index].bytes);
      if (buffer.kind == BufferKind::output) own_.emplace_back(static_cast<size_t>(bytes), poison);
      if (buffer.kind == BufferKind::weight) {
        RTX_ASSIGN(Tensor weight, module_.weights->load(plan_.weights[buffer.index]));
        own_.push_back(std::move(weight.bytes));
      }
      places_.push_back({&own_.back(), 0});
    }
    return Ok{};
  }

  Result<Tensor> read(uint32_t buffer, const Type& type) const {
    std::vector<int64_t> shape;
    for (const Dim& dim : type.shape) {
      RTX_ASSIGN(const int64_t size, dim.evaluate(symbols_));
      shape.push_back(size);
    }
    Tensor tensor(type.dtype, std::move(shape));
    const Place& place = places_[buffer];
    std::memcpy(tensor.bytes.data(), place.memory->data() + place.offset, tensor.bytes.size());
    return tensor;
  }

  const Module& module_;
  const codegen::ModulePlan& plan_;
  const codegen::ProgramPlan& program_;
  const std::vector<Tensor>& inputs_;
  const SymbolValues& symbols_;
  std::vector<std::byte> arena_;
  std::vector<std::vector<std::byte>> own_;  // inputs, outputs and weights
  std::vector<Place> places_;                // of each buffer
};

}  // namespace

Result<std::vector<Tensor>> run_plan(const Module& module, const codegen::ModulePlan& plan,
                                     const std::vector<Tensor>& inputs, const SymbolValues& symbols,
                                     const KernelFunction& kernel) {
  return PlanRunner(module, plan, inputs, symbols).run(kernel);
}

}  // namespace rtx::testing
