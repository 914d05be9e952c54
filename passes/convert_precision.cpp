#include "passes/convert_precision.h"

#include <algorithm>
#include <unordered_map>

#include "base/text.h"
#include "passes/choose_precision.h"

namespace rtx {

namespace {

std::string describe(const Operation& operation) {
  return operation.origins.empty() ? std::string(to_string(operation.op))
                                   : concat(to_string(operation.op), " of ", operation.origins.front());
}

std::string describe(const Value& value) {
  if (!value.name.empty()) return value.name;
  return value.def() ? describe(*value.def()) : concat("argument ", value.index());
}

class Converter {
 public:
  Converter(Module& module, const PrecisionChoice& choice, DType half, PrecisionReport& report)
      : module_(module), choice_(choice), half_(half), report_(report) {}

  void run(Block& block) {
    std::vector<Operation*> converted;
    for (const auto& operation : block.operations()) {
      if (choice_.half.contains(operation.get())) converted.push_back(operation.get());
    }
    for (Operation* operation : converted) {
      for (size_t i = 0; i < operation->operand_count(); ++i) {
        if (is_computed_with(*operation, i))
          operation->set_operand(i, narrowed(block, operation->operand(i), *operation));
      }
      operation->result()->type.dtype = half_;
    }
    for (Operation* operation : converted) widen_for_others(*operation);
  }

 private:
  // Masks of attention may have any float type.
  bool takes_half(const Use& use) const {
    return choice_.half.contains(use.user) || (use.user->is(Op::attention) && use.index >= 3);
  }

  Value* narrowed(Block& block, Value* value, const Operation& user) {
    if (auto known = narrowed_.find(value); known != narrowed_.end()) return known->second;
    const Operation* definition = value->def();
    Value* narrow = nullptr;
    if (definition && (definition->is(Op::constant) || definition->is(Op::weight))) {
      narrow = stored_in_half(*value->def());
    } else {
      narrow = cast(value, half_, definition ? block.next(value->def()) : block.operations().front().get(),
                    concat("an operand of ", describe(user)));
    }
    return narrowed_[value] = narrow;
  }

  // The same constant or weight in half, beside the one in f32.
  Value* stored_in_half(Operation& stored) {
    AttributeList attributes = stored.attributes;
    if (stored.is(Op::constant)) {
      const Tensor& wide = stored.attributes.tensor("value");
      Tensor tensor(half_, wide.shape);
      for (int64_t i = 0, n = wide.element_count(); i < n; ++i) tensor.set_f64(i, wide.f64(i));
      attributes.set("value", std::move(tensor));
    } else {
      attributes.set("name", half_weight(stored.attributes.string("name")));
      attributes.set("dtype", half_);
    }
    Block& block = *stored.block();
    Operation* copy = block.insert(block.next(&stored), stored.op, {}, std::move(attributes),
                                   {Type{half_, stored.result()->type.shape}});
    copy->origins = stored.origins;
    copy->result()->name = stored.result()->name;
    return copy->result();
  }

  // The name under which a weight is stored in half, the same for all that name it.
  const std::string& half_weight(const std::string& name) {
    auto [found, is_new] = half_weights_.try_emplace(name);
    if (is_new) {
      found->second = module_.weights->unique_name(concat(name, ".", to_string(half_)));
      if (module_.weights->find(name)) module_.weights->add_converted(found->second, name, half_);
      report_.weights.push_back(name);
    }
    return found->second;
  }

  void widen_for_others(Operation& operation) {
    Value* value = operation.result();
    std::vector<Use> others;
    for (const Use& use : value->uses()) {
      if (!takes_half(use)) others.push_back(use);
    }
    if (others.empty()) return;
    Block& block = *operation.block();
    const Operation& first = *others.front().user;
    Value* wide = cast(value, DType::f32, block.next(&operation),
                       first.is(Op::yield) ? std::string("an output") : concat("read in f32 by ", describe(first)));
    if (!first.origins.empty()) wide->def()->origins = first.origins;
    for (const Use& use : others) use.user->set_operand(use.index, wide);
  }

  Value* cast(Value* value, DType to, Operation* before, std::string why) {
    report_.casts.push_back({describe(*value), value->type.dtype, to, std::move(why)});
    AttributeList attributes = {{"to", to}, {"saturate", true}};
    Operation* operation =
        before->block()->insert(before, Op::cast, {value}, std::move(attributes), {Type{to, value->type.shape}});
    if (value->def()) operation->origins = value->def()->origins;
    operation->result()->name = value->name;
    return operation->result();
  }

  Module& module_;
  const PrecisionChoice& choice_;
  const DType half_;
  PrecisionReport& report_;
  std::unordered_map<const Value*, Value*> narrowed_;
  std::map<std::string, std::string> half_weights_;
};

// Erases the f32 forms of weights and constants that nothing reads now.
void erase_unused(Block& block) {
  for (Operation* operation = block.operations().front().get(); operation;) {
    Operation* next = block.next(operation);
    if ((operation->is(Op::constant) || operation->is(Op::weight)) && operation->unused()) block.erase(operation);
    operation = next;
  }
}

void count(const Module& module, const PrecisionChoice& choice, PrecisionReport& report) {
  for (const auto& function : module.functions) {
    for (const auto& operation : function->block.operations()) {
      if (operation->result_count() != 1 || operation->is(Op::weight) || operation->is(Op::constant)) continue;
      const DType dtype = operation->result()->type.dtype;
      const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
      if (dtype != DType::f32 && !is_half) continue;
      PrecisionReport::Count& found = report.counts[std::string(to_string(operation->op))];
      ++(is_half ? found.before : choice.half.contains(operation.get()) ? found.half : found.f32);
    }
  }
  for (const auto& [operation, why] : choice.kept) report.kept.push_back({describe(*operation), why});
}

// Text of the model on one line, with its quotes as they are.
std::string shown(std::string_view text) {
  std::string line = escape_text(text, 1000);
  for (size_t at = line.find("\\'"); at != std::string::npos; at = line.find("\\'", at)) line.erase(at, 1);
  return line;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(size_t number) {
  const std::string text = concat(number);
  return concat(std::string(text.size() < 8 ? 8 - text.size() : 0, ' '), text);
}

}  // namespace

std::string PrecisionReport::summary() const {
  size_t converted = 0, all = 0, before = 0;
  for (const auto& [name, number] : counts) {
    converted += number.half;
    before += number.before;
    all += number.half + number.f32 + number.before;
  }
  if (!changed()) {
    return concat("nothing converted to ", to_string(half), ": ", before, " of ", all,
                  " float operations are in half precision already");
  }
  return concat(converted, " of ", all, " float operations in ", to_string(half), ", ", casts.size(), " casts, ",
                weights.size(), " weights stored in ", to_string(half));
}

std::string PrecisionReport::str() const {
  std::string text = concat(summary(), "\n\n", padded("operation", 20), padded(concat("     ", to_string(half)), 10),
                            "     f32  before\n");
  for (const auto& [name, number] : counts) {
    text += concat(padded(name, 20), right(number.half), "  ", right(number.f32), right(number.before), "\n");
  }
  if (!kept.empty()) text += "\nkept in f32:\n";
  for (const Kept& entry : kept) text += concat("  ", shown(entry.operation), ": ", entry.why, "\n");
  if (!weights.empty()) text += concat("\nweights stored in ", to_string(half), ":\n");
  for (const std::string& name : weights) text += concat("  ", shown(name), "\n");
  if (!casts.empty()) text += "\ncasts:\n";
  for (const Cast& cast : casts) {
    text += concat("  ", shown(cast.value), ": ", to_string(cast.from), " to ", to_string(cast.to), ", ",
                   shown(cast.why), "\n");
  }
  return text;
}

Result<bool> convert_precision(Module& module, PassContext& context) {
  RTX_ASSIGN(const PrecisionChoice choice, choose_precision(module, context));
  PrecisionReport own;
  PrecisionReport& report = context.precision_report ? *context.precision_report : own;
  report = {};
  report.half = context.half;
  count(module, choice, report);
  Converter converter(module, choice, context.half, report);
  for (const auto& function : module.functions) {
    converter.run(function->block);
    erase_unused(function->block);
  }
  return report.changed();
}

}  // namespace rtx
