#include "frontend/import.h"

#include <algorithm>
#include <set>
#include <span>

#include "base/text.h"
#include "frontend/import_both.h"
#include "frontend/importer.h"
#include "frontend/input_dims.h"
#include "frontend/onnx_types.h"
#include "ir/verify.h"

namespace rtx::onnx {

Result<ImportResult> import_model(const Model& model, const ImportOptions& options, OperatorUses* uses) {
  OperatorUses whole;
  Importer importer(model, options, uses ? &whole : nullptr, std::make_shared<WeightStore>(), std::nullopt);
  Result<ImportResult> result = importer.run();
  if (importer.selector()) return import_both(model, options, uses, *importer.selector());
  if (uses) *uses = std::move(whole);
  return result;
}

Result<ImportResult> Importer::run() {
  module_ = std::make_unique<Module>();
  module_->weights = weights_;
  function_ = module_->add_function(!fixed_ ? "main" : fixed_->value ? "main.true" : "main.false");
  function_->when = fixed_;
  builder_.emplace(function_->block);
  builder_->unify = [this](const Dim& a, const Dim& b) { return unify(a, b); };
  builder_->rewrite_attributes = [this](AttributeList& attributes) { refresh(attributes); };
  const bool first_program = !fixed_ || fixed_->value;
  for (const FunctionUse& function : model_.functions)
    if (uses_ && first_program)
      uses_->of(function.domain, function.name, function.opset).nodes[static_cast<int>(NodeFate::inlined)] +=
          function.calls;
  scopes_.emplace_back();
  define_initializers(model_.graph);
  RTX_TRY(define_inputs());
  import_nodes(model_.graph);
  node_ = nullptr;
  if (selector_) return make_error(ErrorKind::unsupported, "E405", "the condition of an If is an input");
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
    check_value_info(graph, initializer.name);
  }
}

Result<void> Importer::define_inputs() {
  RTX_ASSIGN(InputDims dims, input_dims(model_, options_));
  module_->symbols = std::move(dims.symbols);
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
        add(input.name).failed = true;
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
    imported.type = {*dtype, dims.shapes.at(input.name)};
  }
  for (const ValueInfo& input : model_.graph.inputs) {
    Imported* imported = lookup(input.name);
    if (imported->stored || imported->failed || imported->value) continue;
    imported->value = function_->block.add_argument(imported->type, input.name);
    check_value_info(model_.graph, input.name);
    if (fixed_ && fixed_->input == input.name)
      imported->contents = Contents{
          DType::boolean, std::vector<int64_t>(imported->type.shape.size(), 1), {Element::of(fixed_->value ? 1 : 0)}};
  }
  return Ok{};
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
    if (imported->sequence) {
      refusals_.push_back({make_error(ErrorKind::unsupported, "E404", "an output that is a sequence is not supported")
                               .with_where(where),
                           1,
                           {}});
      continue;
    }
    builder_->origins.clear();
    auto value = materialise(*imported, *builder_);
    if (!value) {
      for (Diagnostic& diagnostic : std::move(value).error().within(where).diagnostics) invalid_.push_back(diagnostic);
      continue;
    }
    check_declared(output, *imported, "output");
    results.push_back(*value);
    function_->output_names.push_back(output.name);
  }
  if (!invalid_.empty() || !refusals_.empty()) return;
  warn_of_declared_shapes();
  builder_->origins.clear();
  auto yield = builder_->create(Op::yield, results);
  if (!yield)
    for (Diagnostic& diagnostic : std::move(yield).error().diagnostics) invalid_.push_back(diagnostic);
}

// ---- Declared types

namespace {

bool contradicts(const std::vector<DeclaredDim>& declared, const Shape& found) {
  if (declared.size() != found.size()) return true;
  for (size_t axis = 0; axis < found.size(); ++axis)
    if (declared[axis].value && found[axis].is_constant() && !found[axis].is(*declared[axis].value)) return true;
  return false;
}

}  // namespace

void Importer::check_declared(const ValueInfo& declared, const Imported& found, std::string_view what) {
  const bool is_known = found.value || found.stored || found.contents;
  if (!is_known || found.failed || found.unsupported) return;
  const Type& type = found.value ? found.value->type : found.type;
  const std::string name = concat(what, " '", escape_text(declared.name), "'");
  const OnnxType* onnx_type = find_onnx_type(declared.elem_type);
  const bool is_tensor = declared.is_tensor && (onnx_type || declared.elem_type == 0);
  if (!is_tensor || (onnx_type && onnx_type->dtype != type.dtype)) {
    if (invalid_.size() < max_invalid_reports)
      invalid_.push_back(
          make_error(ErrorKind::invalid, "E326", "the declared element type is not what the model computes")
              .with_where(concat(model_.path, ": ", name))
              .with_expected(!declared.is_tensor ? declared.type_text
                             : onnx_type         ? std::string(onnx_type->name)
                                                 : concat("undefined element type ", declared.elem_type))
              .with_got(type.str())
              .with_help("correct the declaration, or remove it"));
    return;
  }
  if (declared.shape && contradicts(*declared.shape, type.shape))
    declared_shapes_.push_back(concat(name, " is ", type.str()));
}

void Importer::check_value_info(const Graph& graph, const std::string& name) {
  auto declared = graph.value_info.find(name);
  if (declared == graph.value_info.end()) return;
  if (const Imported* found = lookup(name); found && !found->sequence)
    check_declared(declared->second, *found, "value");
}

void Importer::warn_of_declared_shapes() {
  constexpr size_t most_named = 3;
  if (declared_shapes_.empty()) return;
  const size_t named = std::min(declared_shapes_.size(), most_named);
  std::string text = join(std::span(declared_shapes_).first(named), "; ", [](auto& shape) { return shape; });
  if (declared_shapes_.size() > named) text += concat("; and ", declared_shapes_.size() - named, " more");
  warn("W203", concat(text, ", not the declared shape"));
}

}  // namespace rtx::onnx
