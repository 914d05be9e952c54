// Values whose contents are known: computing them without emitting anything, and emitting them once they are needed.
#include <algorithm>

#include "base/text.h"
#include "frontend/importer.h"
#include "frontend/onnx_types.h"
#include "ir/evaluate.h"

namespace rtx::onnx {
namespace {

// Larger constants go to the weights file.
constexpr int64_t max_inline_elements = 16;
// What one node may produce while it is evaluated in the scratch block.
constexpr int64_t max_scratch_elements = 4 * max_integer_contents;

const SymbolicRule& rule_for(const Converter& row, const Node& node) {
  return !row.symbolic.applies || row.symbolic.applies(node) ? row.symbolic : fold;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return INT64_MAX;
  return count;
}

bool is_same_data(const WeightEntry& a, const WeightEntry& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.bytes != b.bytes) return false;
  if (a.file || b.file) return a.file == b.file && a.offset == b.offset;
  return a.memory == b.memory || *a.memory == *b.memory;
}

}  // namespace

bool Importer::evaluate_symbolically(const Node& node, const Converter& row, const std::vector<Imported*>& inputs,
                                     std::vector<std::optional<Contents>>& results) {
  const SymbolicRule& rule = rule_for(row, node);
  if (rule.kind == SymbolicRule::Kind::none) return false;
  bool all_constant = true;
  std::vector<const Contents*> operands;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    const Contents* operand = contents(*inputs[i]);
    if (!operand) return false;
    operands.push_back(operand);
    bool moved = rule.kind == SymbolicRule::Kind::move && (rule.moved >> std::min<size_t>(i, 31) & 1);
    if (!moved && !operand->all_constant()) all_constant = false;
  }
  bool complete = false;
  if (all_constant) {
    complete = evaluate_in_scratch(node, row, inputs, results);
  } else if (rule.kind == SymbolicRule::Kind::arithmetic && node.outputs.size() == 1 &&
             operands.size() == node.inputs.size()) {
    DType dtype = operands.back()->dtype;
    for (size_t i = rule.arithmetic == symbolic_where ? 1 : 0; i < operands.size(); ++i)
      if (operands[i]->dtype != dtype) return false;  // an error that the converter reports
    if (rule.gives_bool) dtype = DType::boolean;
    if (const Attribute* to = node.find("to")) {
      auto* number = std::get_if<int64_t>(&to->value);
      auto target = number ? dtype_of(*number) : std::nullopt;
      if (!target) return false;
      dtype = *target;
    }
    results[0] = apply(rule.arithmetic, operands, {dtype, module_->symbols});
    complete = results[0].has_value();
  }
  for (auto& result : results) {
    if (!result) continue;
    bool any_known = std::any_of(result->elements.begin(), result->elements.end(), [](auto& e) { return e.known(); });
    if (!result->all_known()) complete = false;
    if (!may_have_contents(result->dtype, static_cast<int64_t>(result->elements.size()))) {
      complete = false;
      result.reset();
    } else if (!any_known && !result->elements.empty()) {
      result.reset();
    }
  }
  return complete;
}

// Converts the node into a block of its own, with constants in place of the inputs, and evaluates that block. Moved
// inputs are replaced by the numbers of their elements, so that the result says where each element came from.
bool Importer::evaluate_in_scratch(const Node& node, const Converter& row, const std::vector<Imported*>& inputs,
                                   std::vector<std::optional<Contents>>& results) {
  const SymbolicRule& rule = rule_for(row, node);
  bool moves = rule.kind == SymbolicRule::Kind::move;
  std::vector<Element> elements;
  std::deque<Imported> stand_ins;
  std::vector<Imported*> scratch_inputs;
  DType moved_dtype = DType::i64;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) {
      scratch_inputs.push_back(nullptr);
      continue;
    }
    Imported& stand_in = stand_ins.emplace_back();
    stand_in.name = inputs[i]->name;
    stand_in.contents = *contents(*inputs[i]);
    stand_in.contents_asked = true;
    if (moves && (rule.moved >> std::min<size_t>(i, 31) & 1)) {
      moved_dtype = stand_in.contents->dtype;
      stand_in.contents->dtype = DType::i64;
      for (Element& element : stand_in.contents->elements) {
        elements.push_back(element);
        element = Element::of(static_cast<int64_t>(elements.size() - 1));
      }
    }
    stand_in.type = {stand_in.contents->dtype, static_shape(stand_in.contents->shape)};
    scratch_inputs.push_back(&stand_in);
  }

  Block block;
  Builder builder(block);
  Conversion conversion(*this, node, builder, std::move(scratch_inputs));
  if (!row.convert(conversion) || conversion.deferred_error()) return false;
  std::vector<Value*> values;
  std::vector<size_t> outputs;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Conversion::Output& output = conversion.outputs()[i];
    if (output.alias) {
      auto alias = materialise(*output.alias, builder);
      if (!alias) return false;
      output.value = *alias;
    }
    if (output.contents) {
      results[i] = std::move(output.contents);
    } else if (output.value) {
      values.push_back(output.value);
      outputs.push_back(i);
    } else if (conversion.wants(i)) {
      return false;
    }
  }
  if (values.empty()) return true;
  for (const auto& operation : block.operations()) {
    for (const Type& type : operation->result_types()) {
      if (!type.is_static()) return false;
      Dim count = type.element_count();
      if (!count.is_constant() || count.constant() > max_scratch_elements) return false;
    }
  }
  if (!builder.create(Op::yield, values)) return false;
  auto tensors = evaluate(block, {}, {}, nullptr);
  if (!tensors) return false;
  for (size_t k = 0; k < outputs.size(); ++k) {
    Contents contents = contents_of((*tensors)[k]);
    if (moves) {
      contents.dtype = moved_dtype;
      for (Element& element : contents.elements) element = elements[element.dim.constant()];
    }
    results[outputs[k]] = std::move(contents);
  }
  return true;
}

const Contents* Importer::contents(Imported& imported) {
  if (!imported.contents && !imported.contents_asked && imported.stored) {
    imported.contents_asked = true;
    if (may_have_contents(imported.stored->dtype, element_count(imported.stored->shape)))
      if (auto tensor = load(*imported.stored)) imported.contents = contents_of(*tensor);
  }
  return imported.contents ? &*imported.contents : nullptr;
}

Result<Value*> Importer::constant(Tensor tensor, const std::string& name, Builder& builder) {
  bool scratch = &builder != &*builder_;
  if (scratch || tensor.element_count() <= max_inline_elements) return builder.constant(std::move(tensor));
  WeightEntry entry;
  entry.dtype = tensor.dtype;
  entry.shape = tensor.shape;
  entry.bytes = static_cast<int64_t>(tensor.bytes.size());
  entry.memory = std::make_shared<const std::vector<std::byte>>(std::move(tensor.bytes));
  AttributeList attributes = {
      {"name", add_weight(name, entry)}, {"dtype", entry.dtype}, {"shape", static_shape(entry.shape)}};
  return builder.value(Op::weight, {}, std::move(attributes));
}

std::string Importer::add_weight(const std::string& stem, const WeightEntry& entry) {
  for (int64_t i = 0;; ++i) {
    std::string name = i == 0 ? stem : concat(stem, ".", i);
    const WeightEntry* taken = weights_->find(name);
    if (!taken) weights_->add(name, entry);
    if (!taken || is_same_data(*taken, entry)) return name;
  }
}

Result<Value*> Importer::materialise(Imported& imported, Builder& builder) {
  if (imported.value) return imported.value;
  std::vector<std::string> origins = std::move(builder.origins);
  if (imported.producer) builder.origins = {imported.producer->origin()};
  auto emit = [&]() -> Result<Value*> {
    if (imported.stored && element_count(imported.stored->shape) > max_inline_elements) {
      std::string name = add_weight(imported.name, *imported.stored);
      return builder.value(Op::weight, {},
                           {{"name", name}, {"dtype", imported.type.dtype}, {"shape", imported.type.shape}});
    }
    if (imported.stored) {
      RTX_ASSIGN(Tensor tensor, load(*imported.stored));
      return builder.constant(std::move(tensor));
    }
    if (!imported.contents || !imported.contents->all_known())
      return make_error(ErrorKind::internal, "E398", concat("value '", escape_text(imported.name), "' has no data"));
    const Contents& contents = *imported.contents;
    if (contents.all_constant()) {
      return constant(tensor_of(contents), imported.name, builder);
    }
    std::vector<Dim> dims;
    for (const Element& element : contents.elements) {
      auto dim = element.as_dim();
      if (!dim)
        return make_error(ErrorKind::unsupported, "E401", "a tensor of both sizes and fractions is used as data");
      dims.push_back(*dim);
    }
    RTX_ASSIGN(Value * value, builder.value(Op::dim_values, {}, {{"values", dims}}));
    if (contents.shape.size() != 1) {
      RTX_ASSIGN(value, builder.value(Op::reshape, {value}, {{"shape", static_shape(contents.shape)}}));
    }
    if (contents.dtype == DType::i64) return value;
    return builder.value(Op::cast, {value}, {{"to", contents.dtype}});
  };
  Result<Value*> value = emit();
  builder.origins = std::move(origins);
  if (!value) return value;
  imported.value = *value;
  if ((*value)->name.empty()) (*value)->name = imported.name;
  return value;
}

}  // namespace rtx::onnx
