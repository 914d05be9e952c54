#include "frontend/import.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontend/importer.h"
#include "frontend/onnx_types.h"
#include "ir/evaluate.h"
#include "ir/verify.h"

namespace rtx::onnx {
namespace {

// Larger constants go to the weights file.
constexpr int64_t max_inline_elements = 16;
// What one node may produce while it is evaluated in the scratch block.
constexpr int64_t max_scratch_elements = 4 * max_integer_contents;
constexpr size_t max_invalid_reports = 20;
constexpr size_t max_named_nodes = 3;

bool is_node(const Node& node, std::string_view op_type) { return node.op_type == op_type && node.domain.empty(); }

Shape static_shape(const std::vector<int64_t>& sizes) { return Shape(sizes.begin(), sizes.end()); }

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return INT64_MAX;
  return count;
}

// max(past, 7) == 11 is past == 11: an expression over one symbol that takes the value `target` exactly where the
// symbol does. Not min(seq, 512) == 512, which holds for many sizes.
std::optional<Dim::Solution> solve_by_trial(const Dim& a, const Dim& b) {
  const Dim &expression = a.is_constant() ? b : a, &target = a.is_constant() ? a : b;
  std::vector<std::string> names;
  expression.collect_symbols(names);
  if (!target.is_constant() || names.size() != 1 || target.constant() == INT64_MAX || target.constant() == INT64_MIN)
    return std::nullopt;
  auto hits = [&](int64_t value) { return expression.substituted(names[0], value) == target; };
  int64_t value = target.constant();
  if (!hits(value) || hits(value - 1) || hits(value + 1)) return std::nullopt;
  return Dim::Solution{names[0], value};
}

bool has_blank_separated(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    size_t end = list.find(' ');
    if (list.substr(0, end) == word) return true;
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
  }
  return false;
}

}  // namespace

Result<ImportResult> import_model(const Model& model, const ImportOptions& options) {
  return Importer(model, options).run();
}

Result<ImportResult> Importer::run() {
  module_ = std::make_unique<Module>();
  function_ = module_->add_function("main");
  builder_.emplace(function_->block);
  builder_->unify = [this](const Dim& a, const Dim& b) { return unify(a, b); };
  builder_->rewrite_attributes = [this](AttributeList& attributes) { refresh(attributes); };
  scopes_.emplace_back();
  define_initializers(model_.graph);
  define_inputs();
  import_nodes(model_.graph);
  node_ = nullptr;
  if (invalid_.empty() && refusals_.empty()) finish();
  if (!invalid_.empty() || !refusals_.empty()) return collected();
  RTX_TRY(verify(*module_));
  return ImportResult{std::move(module_), std::move(warnings_)};
}

// ---- Names

Imported& Importer::add(const std::string& name) {
  Imported& imported = values_.emplace_back();
  imported.name = name;
  scopes_.back()[name] = &imported;
  return imported;
}

Imported* Importer::lookup(std::string_view name) const {
  std::string key(name);
  for (size_t i = scopes_.size(); i-- > 0;) {
    auto found = scopes_[i].find(key);
    if (found != scopes_[i].end()) return found->second;
  }
  return nullptr;
}

void Importer::define_initializers(const Graph& graph) {
  for (const Initializer& initializer : graph.initializers) {
    Imported& imported = add(initializer.name);
    imported.type = {initializer.entry.dtype, static_shape(initializer.entry.shape)};
    imported.stored = &initializer.entry;
    if (!initializer.unsupported.empty()) imported.unsupported = &initializer.unsupported;
  }
}

void Importer::define_inputs() {
  for (const ValueInfo& input : model_.graph.inputs) {
    std::string where = concat(model_.path, ": input '", escape_text(input.name), "'");
    if (scopes_.back().contains(input.name)) {
      // ONNX IR 4 and later: an initializer that is also an input is its default. Overriding is optional for a runtime;
      // rtx keeps the default and has no such input.
      warn("W201", concat("input '", escape_text(input.name), "' has a default value and is taken as a constant"));
      continue;
    }
    auto dtype = dtype_of(input.elem_type);
    if (auto given = options_.constants.find(input.name); given != options_.constants.end()) {
      const Tensor& tensor = given->second;
      if (dtype && *dtype != tensor.dtype) {
        invalid_.push_back(make_error(ErrorKind::usage, "E021", "the given constant has another type")
                               .with_where(where)
                               .with_expected(std::string(to_string(*dtype)))
                               .with_got(tensor.type_str()));
        continue;
      }
      WeightEntry& entry = given_.emplace_back();
      entry.dtype = tensor.dtype;
      entry.shape = tensor.shape;
      entry.bytes = static_cast<int64_t>(tensor.bytes.size());
      entry.memory = std::make_shared<const std::vector<std::byte>>(tensor.bytes);
      Imported& imported = add(input.name);
      imported.type = {entry.dtype, static_shape(entry.shape)};
      imported.stored = &entry;
      continue;
    }
    if (!input.is_tensor || !dtype || !input.shape) {
      const OnnxType* type = find_onnx_type(input.elem_type);
      std::string what = !input.is_tensor ? input.type_text : type ? std::string(type->name) : "undefined";
      Diagnostic diagnostic =
          input.is_tensor && dtype
              ? make_error(ErrorKind::unsupported, "E403", "the rank is not declared")
                    .with_help("declare the shape, with names for the axes that vary")
              : make_error(ErrorKind::unsupported, "E404", concat("type ", escape_text(what), " is not supported"));
      refusals_.push_back({diagnostic.with_where(where), 1, {}});
      add(input.name).failed = true;
      continue;
    }
    Imported& imported = add(input.name);
    imported.type = {*dtype, declared_shape(input)};
  }
  bind_every_symbol();
  for (const ValueInfo& input : model_.graph.inputs) {
    Imported* imported = lookup(input.name);
    if (imported->stored || imported->failed || imported->value) continue;
    imported->value = function_->block.add_argument(imported->type, input.name);
  }
}

Shape Importer::declared_shape(const ValueInfo& input) {
  Shape shape;
  for (size_t axis = 0; axis < input.shape->size(); ++axis) {
    const DeclaredDim& declared = (*input.shape)[axis];
    if (declared.value) {
      shape.push_back(*declared.value);
      continue;
    }
    // dynamo writes expressions ("s21 + s29"); whatever does not parse is one name.
    Dim dim;
    if (declared.param.empty()) {
      dim = Dim::symbol(sanitize_symbol(concat(input.name, "_dim", axis)));
    } else {
      auto parsed = parse_dim(declared.param);
      dim = parsed && !parsed->overflowed() ? *parsed : Dim::symbol(sanitize_symbol(declared.param));
    }
    std::vector<std::string> names;
    dim.collect_symbols(names);
    for (const std::string& name : names) {
      auto option = options_.ranges.find(name);
      if (option != options_.ranges.end() && option->second.min == option->second.max)
        dim = dim.substituted(name, option->second.min);
      else
        module_->symbols.try_emplace(name, option != options_.ranges.end() ? option->second : SymbolRange{});
    }
    shape.push_back(dim);
  }
  return shape;
}

// The runtime learns a symbol from an axis that is exactly that symbol. An axis with an expression over a symbol that
// has no such axis becomes a symbol of its own.
void Importer::bind_every_symbol() {
  std::set<std::string> bound;
  for (Imported& imported : values_)
    if (!imported.stored)
      for (const Dim& dim : imported.type.shape)
        if (auto symbol = dim.as_symbol()) bound.insert(*symbol);
  for (Imported& imported : values_) {
    if (imported.stored) continue;
    for (size_t axis = 0; axis < imported.type.shape.size(); ++axis) {
      Dim& dim = imported.type.shape[axis];
      std::vector<std::string> names;
      dim.collect_symbols(names);
      bool free = std::any_of(names.begin(), names.end(), [&](auto& name) { return !bound.contains(name); });
      if (!free) continue;
      std::string name = sanitize_symbol(dim.str());
      dim = Dim::symbol(name);
      bound.insert(name);
      module_->symbols.try_emplace(name);
    }
  }
  std::erase_if(module_->symbols, [&](auto& entry) { return !bound.contains(entry.first); });
}

// ---- Nodes

void Importer::import_nodes(const Graph& graph) {
  for (const Node& node : graph.nodes) import_node(node);
}

void Importer::import_node(const Node& node) {
  node_ = &node;
  bool known = false;
  const Converter* row = find_converter(node.domain, node.op_type, node.opset, &known);
  bool is_if = is_node(node, "If");
  if (!row && !is_if) {
    report(node,
           Error(make_error(ErrorKind::unsupported, "E401",
                            known ? "this version of the operator is not supported" : "operator is not supported")));
    return fail_outputs(node);
  }
  std::vector<Imported*> inputs;
  for (const std::string& name : node.inputs) {
    Imported* imported = name.empty() ? nullptr : lookup(name);
    if (!name.empty() && !imported) {
      report(node,
             Error(make_error(ErrorKind::invalid, "E203", concat("value '", escape_text(name), "' is not defined"))));
      return fail_outputs(node);
    }
    if (imported && imported->unsupported) {
      report(node, Error(make_error(ErrorKind::unsupported, "E404",
                                    concat("an input of type ", *imported->unsupported, " is not supported"))));
      return fail_outputs(node);
    }
    if (imported && imported->failed) return fail_outputs(node);
    inputs.push_back(imported);
  }
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Result<void> done = is_if ? inline_if(node, inputs) : convert(node, *row, std::move(inputs));
  node_ = &node;
  if (!done) {
    report(node, std::move(done).error());
    fail_outputs(node);
  }
}

Result<void> Importer::convert(const Node& node, const Converter& row, std::vector<Imported*> inputs) {
  int count = static_cast<int>(inputs.size());
  if (count < row.min_inputs || count > row.max_inputs)
    return make_error(ErrorKind::invalid, "E221", concat("the operator has ", count, " inputs"))
        .with_expected(row.max_inputs == any_number       ? concat(row.min_inputs, " or more")
                       : row.min_inputs == row.max_inputs ? concat(row.min_inputs)
                                                          : concat(row.min_inputs, " to ", row.max_inputs));
  if (static_cast<int64_t>(node.outputs.size()) > row.max_outputs)
    return make_error(ErrorKind::invalid, "E221", concat("the operator has ", node.outputs.size(), " outputs"))
        .with_expected(concat("at most ", row.max_outputs, " outputs of this type of operator"));
  for (const Attribute& attribute : node.attributes)
    if (!has_blank_separated(row.attributes, attribute.name))
      return make_error(ErrorKind::invalid, "E325",
                        concat("attribute '", escape_text(attribute.name), "' is not known to version ", row.since,
                               " of the operator"))
          .with_expected(row.attributes.empty() ? "no attributes" : std::string(row.attributes));
    else if (!attribute.unsupported.empty())
      return make_error(
          ErrorKind::unsupported, "E404",
          concat("attribute '", escape_text(attribute.name), "' of type ", attribute.unsupported, " is not supported"));

  std::vector<std::optional<Contents>> known(node.outputs.size());
  bool complete = evaluate_symbolically(node, row, inputs, known);
  builder_->origins = {node.str()};
  Conversion conversion(*this, node, *builder_, std::move(inputs));
  if (!complete) {
    Result<void> done = row.convert(conversion);
    if (conversion.attribute_error()) return *conversion.attribute_error();
    if (!done) return done;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Conversion::Output& output = conversion.outputs()[i];
    const std::optional<Contents>& contents = output.contents ? output.contents : known[i];
    size_t rank = output.value ? output.value->type.shape.size() : contents ? contents->shape.size() : 0;
    if (rank > static_cast<size_t>(options_.max_rank))
      return make_error(ErrorKind::limit, "E504", concat("the result has rank ", rank))
          .with_expected(concat("at most ", options_.max_rank))
          .with_help("--max-rank");
  }
  define_outputs(conversion, std::move(known));
  return Ok{};
}

Result<void> Importer::check_size(const Type& type) const {
  int64_t count = 1;
  bool wraps = false;
  for (const Dim& dim : type.shape) {
    if (dim.overflowed()) return make_error(ErrorKind::invalid, "E302", "a size of the result overflows 64 bits");
    if (dim.is(0)) return Ok{};
    if (dim.is_constant() && __builtin_mul_overflow(count, dim.constant(), &count)) wraps = true;
  }
  auto bytes = wraps ? std::nullopt : packed_bytes(type.dtype, count);
  if (!bytes)
    return make_error(ErrorKind::invalid, "E302", "the element count of the result overflows 64 bits")
        .with_got(type.str());
  if (*bytes > options_.max_tensor_bytes)
    return make_error(ErrorKind::limit, "E504", concat("the result has ", *bytes, " bytes"))
        .with_expected(concat("at most ", options_.max_tensor_bytes))
        .with_got(type.str())
        .with_help("--max-tensor-bytes");
  return Ok{};
}

void Importer::define_outputs(Conversion& conversion, std::vector<std::optional<Contents>> known) {
  const Node& node = conversion.node();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Conversion::Output& output = conversion.outputs()[i];
    if (output.alias) {
      scopes_.back()[node.outputs[i]] = output.alias;
      continue;
    }
    Imported& imported = add(node.outputs[i]);
    imported.producer = &node;
    imported.stored = output.stored;
    imported.value = output.value;
    imported.contents = output.contents ? std::move(output.contents) : std::move(known[i]);
    if (output.value) {
      if (output.value->name.empty()) output.value->name = node.outputs[i];
      imported.type = output.value->type;
      imported.contents_asked = true;
    } else if (output.stored) {
      imported.type = {output.stored->dtype, static_shape(output.stored->shape)};
    } else if (imported.contents) {
      imported.type = {imported.contents->dtype, static_shape(imported.contents->shape)};
    } else {
      imported.failed = true;  // an optional output that the converter does not make
      report(node, Error(make_error(ErrorKind::unsupported, "E401", concat("output ", i, " is not supported"))));
    }
  }
}

void Importer::fail_outputs(const Node& node) {
  for (const std::string& name : node.outputs) {
    if (name.empty()) continue;
    Imported& imported = add(name);
    imported.producer = &node;
    imported.failed = true;
  }
}

// Exporters guard squeeze and the like by an If on a shape. The branch that cannot run is not looked at.
Result<void> Importer::inline_if(const Node& node, const std::vector<Imported*>& inputs) {
  if (inputs.size() != 1) return make_error(ErrorKind::invalid, "E221", "If needs one input, the condition");
  const Graph* branches[2] = {};
  const char* names[2] = {"else_branch", "then_branch"};
  for (int i = 0; i < 2; ++i) {
    const Attribute* branch = node.find(names[i]);
    auto* graph = branch ? std::get_if<std::shared_ptr<Graph>>(&branch->value) : nullptr;
    if (!graph || !*graph || (*graph)->outputs.size() != node.outputs.size())
      return make_error(ErrorKind::invalid, "E222",
                        concat("attribute '", names[i], "' is missing or has another number of outputs than the node"));
    branches[i] = graph->get();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    int32_t types[2] = {branches[0]->outputs[i].elem_type, branches[1]->outputs[i].elem_type};
    if (types[0] != 0 && types[1] != 0 && types[0] != types[1])
      return make_error(ErrorKind::invalid, "E335", concat("the branches give output ", i, " different types"));
  }
  const Type& condition_type = inputs[0]->value ? inputs[0]->value->type : inputs[0]->type;
  Dim count = condition_type.element_count();
  if (condition_type.dtype != DType::boolean || (count.is_constant() && !count.is(1)))
    return make_error(ErrorKind::invalid, "E327", "input 0, the condition, must be one bool")
        .with_got(condition_type.str());
  const Contents* condition = contents(*inputs[0]);
  if (!condition || condition->elements.size() != 1 || !condition->all_constant()) {
    report_unknown_operators(*branches[0]);
    report_unknown_operators(*branches[1]);
    return make_error(ErrorKind::unsupported, "E405", "the condition is known only at run time")
        .with_help("fix the dims it depends on with --dim NAME=SIZE, or export without the branch");
  }
  bool taken = !condition->elements[0].dim.is(0);
  const Graph* graph = branches[taken ? 1 : 0];

  scopes_.emplace_back();
  define_initializers(*graph);
  import_nodes(*graph);
  std::vector<Imported*> results;
  for (const ValueInfo& output : graph->outputs) results.push_back(lookup(output.name));
  scopes_.pop_back();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i])
      return make_error(ErrorKind::invalid, "E203",
                        concat("value '", escape_text(graph->outputs[i].name), "' is not defined"));
    if (!node.outputs[i].empty()) scopes_.back()[node.outputs[i]] = results[i];
  }
  return Ok{};
}

// A branch that cannot be imported is still looked at, so that the report is whole.
void Importer::report_unknown_operators(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    bool known = false;
    if (!find_converter(node.domain, node.op_type, node.opset, &known) && !known && !is_node(node, "If"))
      report(node, Error(make_error(ErrorKind::unsupported, "E401", "operator is not supported")));
    for (const Attribute& attribute : node.attributes)
      if (auto* inner = std::get_if<std::shared_ptr<Graph>>(&attribute.value); inner && *inner)
        report_unknown_operators(**inner);
  }
}

// ---- Symbolic evaluation

bool Importer::evaluate_symbolically(const Node& node, const Converter& row, const std::vector<Imported*>& inputs,
                                     std::vector<std::optional<Contents>>& results) {
  const SymbolicRule& rule = row.symbolic;
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
  bool moves = row.symbolic.kind == SymbolicRule::Kind::move;
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
    if (moves && (row.symbolic.moved >> std::min<size_t>(i, 31) & 1)) {
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
  if (!row.convert(conversion) || conversion.attribute_error()) return false;
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

Result<Value*> Importer::materialise(Imported& imported, Builder& builder) {
  if (imported.value) return imported.value;
  std::vector<std::string> origins = std::move(builder.origins);
  if (imported.producer) builder.origins = {imported.producer->str()};
  auto emit = [&]() -> Result<Value*> {
    bool scratch = &builder != &*builder_;
    if (imported.stored && element_count(imported.stored->shape) > max_inline_elements) {
      std::string name = imported.name;
      if (!module_->weights->add(name, *imported.stored)) {
        name = module_->weights->unique_name(name);
        module_->weights->add(name, *imported.stored);
      }
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
      Tensor tensor = tensor_of(contents);
      if (scratch || tensor.element_count() <= max_inline_elements) return builder.constant(std::move(tensor));
      std::string name = module_->weights->unique_name(imported.name);
      module_->weights->add(name, std::move(tensor));
      return builder.value(Op::weight, {},
                           {{"name", name}, {"dtype", imported.type.dtype}, {"shape", imported.type.shape}});
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

// ---- Dims

Dim Importer::fresh(Dim dim) const {
  for (const auto& [symbol, value] : substitutions_) dim = dim.substituted(symbol, value);
  return dim;
}

bool Importer::unify(const Dim& stale_a, const Dim& stale_b) {
  Dim a = fresh(stale_a), b = fresh(stale_b);
  if (a == b) return true;
  auto solution = Dim::solve(a, b);
  if (!solution) solution = solve_by_trial(a, b);
  if (!solution) return false;
  const auto& [symbol, value] = *solution;
  auto range = module_->symbols.find(symbol);
  if (range == module_->symbols.end()) return false;
  if (value.upper_bound(module_->symbols) < range->second.min ||
      value.lower_bound(module_->symbols) > range->second.max)
    return false;
  if (auto other = value.as_symbol()) {
    auto found = module_->symbols.find(*other);
    if (found == module_->symbols.end()) return false;
    found->second.min = std::max(found->second.min, range->second.min);
    found->second.max = std::min(found->second.max, range->second.max);
    if (found->second.opt == 0) found->second.opt = range->second.opt;
  }
  warn("W202", concat("dim '", symbol, "' is ", value.str()));
  std::string name = symbol;
  Dim replacement = value;
  module_->substitute(name, replacement);
  for (Imported& imported : values_) {
    if (imported.contents) imported.contents->substitute(name, replacement);
    for (Dim& dim : imported.type.shape)
      if (!dim.is_constant()) dim = dim.substituted(name, replacement);
  }
  substitutions_.emplace_back(std::move(name), std::move(replacement));
  return true;
}

void Importer::limit(const Dim& dim, int64_t bound) {
  if (dim.upper_bound(module_->symbols) <= bound) return;
  std::vector<std::string> names;
  dim.collect_symbols(names);
  if (names.size() != 1) return;
  Dim symbol = Dim::symbol(names[0]);
  Dim offset = dim - symbol;
  if (!offset.is_constant()) return;
  SymbolRange& range = module_->symbols[names[0]];
  if (bound - offset.constant() < range.min) return;
  range.max = bound - offset.constant();
  if (range.opt > range.max) range.opt = range.max;
  warn("W206", concat("dim '", names[0], "' is at most ", range.max));
}

void Importer::refresh(AttributeList& attributes) const {
  if (substitutions_.empty()) return;
  AttributeList replaced;
  for (const auto& [name, value] : attributes.entries()) {
    AttributeValue copy = value;
    if (auto* dim = std::get_if<Dim>(&copy)) *dim = fresh(std::move(*dim));
    if (auto* dims = std::get_if<std::vector<Dim>>(&copy))
      for (Dim& dim : *dims)
        if (!dim.is_constant()) dim = fresh(std::move(dim));
    replaced.set(name, std::move(copy));
  }
  attributes = std::move(replaced);
}

// ---- Reports

void Importer::warn(std::string_view id, std::string message) {
  Diagnostic warning = make_error(ErrorKind::invalid, id, std::move(message));
  warning.severity = Severity::warning;
  warning.where = node_ ? concat(model_.path, ": ", node_->str()) : model_.path;
  if (warned_.insert(concat(warning.where, "\n", warning.message)).second) warnings_.push_back(std::move(warning));
}

void Importer::report(const Node& node, Error error) {
  for (Diagnostic& diagnostic : error.diagnostics) {
    if (diagnostic.kind == ErrorKind::unsupported) {
      std::string operator_name = node.domain.empty() ? node.op_type : concat(node.domain, ".", node.op_type);
      std::string key = concat(operator_name, "\n", node.opset, "\n", diagnostic.id, "\n", diagnostic.message);
      auto [entry, is_new] = refusal_index_.try_emplace(key, refusals_.size());
      if (is_new) {
        diagnostic.message =
            concat(escape_text(operator_name), " (domain '", escape_text(node.domain.empty() ? "ai.onnx" : node.domain),
                   "', opset ", node.opset, "): ", diagnostic.message);
        refusals_.push_back({std::move(diagnostic), 0, {}});
      }
      Refusal& refusal = refusals_[entry->second];
      ++refusal.count;
      if (refusal.nodes.size() < max_named_nodes) refusal.nodes.push_back(node.str());
    } else if (invalid_.size() < max_invalid_reports) {
      std::string place = concat(model_.path, ": ", node.str());
      diagnostic.where = diagnostic.where.empty() ? place : concat(place, ": ", diagnostic.where);
      if (!node.scope.empty()) diagnostic.notes.push_back(concat("in module ", escape_text(node.scope)));
      invalid_.push_back(std::move(diagnostic));
    }
  }
}

Error Importer::collected() const {
  std::vector<Diagnostic> all = invalid_;
  for (const Refusal& refusal : refusals_) {
    Diagnostic diagnostic = refusal.diagnostic;
    if (diagnostic.where.empty()) diagnostic.where = model_.path;
    if (!refusal.nodes.empty()) {
      bool more = refusal.count > static_cast<int64_t>(refusal.nodes.size());
      diagnostic.notes.insert(diagnostic.notes.begin(),
                              concat(refusal.count, refusal.count == 1 ? " node: " : " nodes: ",
                                     join(refusal.nodes, ", "), more ? ", ..." : ""));
    }
    all.push_back(std::move(diagnostic));
  }
  return Error(std::move(all));
}

// ---- Outputs

void Importer::finish() {
  std::vector<Value*> results;
  for (const ValueInfo& output : model_.graph.outputs) {
    std::string where = concat(model_.path, ": output '", escape_text(output.name), "'");
    Imported* imported = lookup(output.name);
    if (!imported) {
      invalid_.push_back(make_error(ErrorKind::invalid, "E203", "the value is not defined").with_where(where));
      continue;
    }
    builder_->origins.clear();
    auto value = materialise(*imported, *builder_);
    if (!value) {
      for (Diagnostic& diagnostic : std::move(value).error().within(where).diagnostics) invalid_.push_back(diagnostic);
      continue;
    }
    check_declared(output, (*value)->type);
    results.push_back(*value);
    function_->output_names.push_back(output.name);
  }
  if (!invalid_.empty()) return;
  builder_->origins.clear();
  auto yield = builder_->create(Op::yield, results);
  if (!yield)
    for (Diagnostic& diagnostic : std::move(yield).error().diagnostics) invalid_.push_back(diagnostic);
}

// Declared output shapes often lie (traced with the example input); inference wins. Element types must agree.
void Importer::check_declared(const ValueInfo& output, const Type& type) {
  auto dtype = dtype_of(output.elem_type);
  if (dtype && *dtype != type.dtype) {
    invalid_.push_back(
        make_error(ErrorKind::invalid, "E326", "the declared element type is not what the model computes")
            .with_where(concat(model_.path, ": output '", escape_text(output.name), "'"))
            .with_expected(std::string(to_string(*dtype)))
            .with_got(std::string(to_string(type.dtype))));
    return;
  }
  if (!output.shape) return;
  bool differs = output.shape->size() != type.shape.size();
  for (size_t axis = 0; !differs && axis < type.shape.size(); ++axis) {
    const DeclaredDim& declared = (*output.shape)[axis];
    if (declared.value && type.shape[axis].is_constant() && !type.shape[axis].is(*declared.value)) differs = true;
  }
  if (differs)
    warn("W203", concat("output '", escape_text(output.name), "' is ", type.str(), ", not the declared shape"));
}

}  // namespace rtx::onnx
