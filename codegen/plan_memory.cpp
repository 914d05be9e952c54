#include "codegen/plan_memory.h"

#include <algorithm>

#include "base/text.h"
#include "codegen/order_arena.h"
#include "codegen/plan_common.h"

namespace rtx::codegen {
namespace {

using package::BufferKind;

// A reshape is another view of its operand's bytes.
const Value* root_of(const Value* value) {
  while (value->def() && value->def()->is(Op::reshape)) value = value->def()->operand(0);
  return value;
}

class MemoryPlanner {
 public:
  MemoryPlanner(const Function& function, std::span<const StepScratch> scratch, std::vector<std::string>& weights)
      : block_(function.block), scratch_(scratch), weights_(weights) {
    for (const std::string& name : weights_) weight_of_.emplace(name, static_cast<uint32_t>(weight_of_.size()));
  }

  Result<MemoryPlan> run(const SymbolRanges& symbols) {
    for (size_t i = 0; i < block_.argument_count(); ++i) {
      add_buffer(block_.argument(i), BufferKind::input, static_cast<uint32_t>(i));
    }
    const Operation* yield = block_.terminator();
    for (size_t i = 0; i < yield->operand_count(); ++i) {
      const Value* root = root_of(yield->operand(i));
      // form_fusions has given each output a fusion of its own.
      if (!root->def() || !root->def()->is(Op::fusion) || plan_.buffer_of.contains(root)) {
        return make_error(ErrorKind::internal, "E994", concat("output ", i, " has no buffer of its own"));
      }
      add_buffer(root, BufferKind::output, static_cast<uint32_t>(i));
    }
    size_t step = 0;
    for (const auto& operation : block_.operations()) {
      if (operation->is(Op::weight)) add_weight(*operation);
      if (operation->is(Op::fusion)) add_step(*operation, step++);
    }
    const std::vector<uint32_t> order = order_arena(bytes_, lives_, symbols);
    std::vector<uint32_t> place_of(order.size());
    for (uint32_t piece : order) {
      place_of[piece] = static_cast<uint32_t>(plan_.arena.size());
      plan_.arena.push_back(bytes_[piece]);
      plan_.lives.push_back(lives_[piece]);
    }
    plan_.scratch.resize(scratch_.size());
    for (size_t i = 0; i < owners_.size(); ++i) {
      const auto buffer = static_cast<uint32_t>(plan_.buffers.size());
      if (owners_[i].value) {
        plan_.buffer_of[owners_[i].value] = buffer;
      } else {
        plan_.scratch[owners_[i].step].push_back(buffer);
      }
      plan_.buffers.push_back({BufferKind::arena, place_of[i], bytes_[i]});
    }
    uint32_t counters = 0;
    for (size_t i = 0; i < scratch_.size(); ++i) {
      if (scratch_[i].counters.is(0)) continue;
      plan_.scratch[i].push_back(static_cast<uint32_t>(plan_.buffers.size()));
      plan_.buffers.push_back({BufferKind::counters, counters++, scratch_[i].counters * Dim(4)});
    }
    for (const auto& operation : block_.operations()) {
      if (operation->is(Op::reshape))
        plan_.buffer_of[operation->result()] = plan_.buffer_of.at(root_of(operation->result()));
    }
    return std::move(plan_);
  }

 private:
  void add_buffer(const Value* value, BufferKind kind, uint32_t index) {
    plan_.buffer_of[value] = static_cast<uint32_t>(plan_.buffers.size());
    plan_.buffers.push_back({kind, index, byte_count(value->type)});
  }

  void add_weight(const Operation& operation) {
    const std::string& name = operation.attributes.string("name");
    const auto [found, is_new] = weight_of_.try_emplace(name, static_cast<uint32_t>(weights_.size()));
    if (is_new) weights_.push_back(name);
    add_buffer(operation.result(), BufferKind::weight, found->second);
  }

  void add_step(const Operation& fusion, size_t index) {
    const int64_t step = static_cast<int64_t>(index);
    for (const Value* operand : fusion.operands()) {
      if (auto found = piece_of_.find(root_of(operand)); found != piece_of_.end()) lives_[found->second].last = step;
    }
    for (size_t i = 0; i < fusion.result_count(); ++i) {
      const Value* result = fusion.result(i);
      if (plan_.buffer_of.contains(result)) continue;  // an output
      piece_of_[result] = lives_.size();
      add_piece(byte_count(result->type), {result, index});
    }
    if (scratch_[index].workspace_bytes.is(0)) return;
    add_piece(scratch_[index].workspace_bytes, {nullptr, index});
  }

  // Whose memory a piece is: a value's, or the workspace of a step.
  struct Owner {
    const Value* value;
    size_t step;  // that writes it
  };

  void add_piece(Dim bytes, Owner owner) {
    const int64_t step = static_cast<int64_t>(owner.step);
    bytes_.push_back(std::move(bytes));
    lives_.push_back({step, step});
    owners_.push_back(owner);
  }

  const Block& block_;
  std::span<const StepScratch> scratch_;
  std::vector<std::string>& weights_;
  std::map<std::string, uint32_t, std::less<>> weight_of_;  // position in weights_
  MemoryPlan plan_;
  // Of each piece of the arena.
  std::vector<Dim> bytes_;
  std::vector<package::Life> lives_;
  std::vector<Owner> owners_;
  std::map<const Value*, size_t> piece_of_;
};

}  // namespace

std::string MemoryPlan::str() const {
  constexpr std::string_view kinds[] = {"input", "output", "weight", "arena", "counters"};
  std::string text;
  for (size_t i = 0; i < buffers.size(); ++i) {
    text += concat("buffer ", i, ": ", kinds[static_cast<size_t>(buffers[i].kind)], " ", buffers[i].index, ", ",
                   buffers[i].bytes.str(), " bytes\n");
  }
  for (size_t i = 0; i < arena.size(); ++i)
    text += concat("piece ", i, ": ", arena[i].str(), " bytes, steps ", lives[i].first, " to ", lives[i].last, "\n");
  return text;
}

Result<MemoryPlan> plan_memory(const Function& function, const SymbolRanges& symbols,
                               std::span<const StepScratch> scratch, std::vector<std::string>& weights) {
  return MemoryPlanner(function, scratch, weights).run(symbols);
}

}  // namespace rtx::codegen
