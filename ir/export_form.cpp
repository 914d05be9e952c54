#include "ir/export_form.h"

#include <map>

#include "base/text.h"

namespace rtx {
namespace {

void strip(Block& block) {
  for (const auto& operation : block.operations()) {
    operation->origins.clear();
    for (size_t i = 0; i < operation->result_count(); ++i) operation->result(i)->name.clear();
    if (Block* body = operation->body()) {
      for (size_t i = 0; i < body->argument_count(); ++i) body->argument(i)->name.clear();
      strip(*body);
    }
  }
}

// Weights stand in the blocks of functions, not inside fusions.
std::vector<Operation*> weights_of(Module& module) {
  std::vector<Operation*> all;
  for (const auto& function : module.functions)
    for (const auto& operation : function->block.operations())
      if (operation->is(Op::weight)) all.push_back(operation.get());
  return all;
}

}  // namespace

void strip_metadata(Module& module) {
  for (const auto& function : module.functions) strip(function->block);
  auto renamed = std::make_shared<WeightStore>();
  std::map<std::string, std::string> names;
  for (Operation* weight : weights_of(module)) {
    const std::string& old = weight->attributes.string("name");
    const auto [place, is_new] = names.try_emplace(old, concat("w", names.size()));
    if (const WeightEntry* entry = module.weights->find(old); is_new && entry) renamed->add(place->second, *entry);
    weight->attributes.set("name", place->second);
  }
  module.weights = std::move(renamed);
}

Result<void> inline_weights(Module& module, int64_t max_bytes) {
  const std::vector<Operation*> weights = weights_of(module);
  int64_t total = 0, most = -1;
  std::string largest;
  for (const Operation* weight : weights) {
    const std::string& name = weight->attributes.string("name");
    const WeightEntry* entry = module.weights->find(name);
    if (!entry) return make_error(ErrorKind::invalid, "E620", concat("there is no weight ", quote_text(name)));
    if (__builtin_add_overflow(total, entry->bytes, &total)) total = INT64_MAX;
    if (entry->bytes <= most) continue;
    most = entry->bytes;
    largest = name;
  }
  if (total > max_bytes)
    return make_error(ErrorKind::limit, "E507", "the weights are too large to stand in the text")
        .with_expected(concat("at most ", max_bytes, " bytes together"))
        .with_got(concat(total, " bytes; the largest is ", quote_text(largest), " with ", most))
        .with_help("raise the limit with --max-inline-bytes, or use --weights external");
  for (Operation* weight : weights) {
    RTX_ASSIGN(Tensor tensor, module.weights->load(weight->attributes.string("name")));
    AttributeList attributes;
    attributes.set("value", std::move(tensor));
    Operation* constant =
        weight->block()->insert(weight, Op::constant, {}, std::move(attributes), weight->result_types());
    constant->origins = weight->origins;
    constant->result()->name = weight->result()->name;
    weight->result()->replace_all_uses_with(constant->result());
    weight->block()->erase(weight);
  }
  module.weights = std::make_shared<WeightStore>();
  return Ok{};
}

}  // namespace rtx
