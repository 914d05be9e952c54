// Loop: its body as often as it runs, where that is known while importing.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "frontend/importer.h"
#include "frontend/onnx_types.h"

namespace rtx::onnx {
namespace {

bool is_one_element(const Imported& value, DType dtype) {
  const Type& type = value.value ? value.value->type : value.type;
  const Dim count = type.element_count();
  return !value.sequence && type.dtype == dtype && (!count.is_constant() || count.is(1));
}

}  // namespace

// The element of a tensor of one element, where it is known. E401, named `what`, where it is not.
Result<int64_t> Importer::control_value(Imported& value, std::string_view what) {
  const Contents* known = contents(value);
  if (known && known->elements.size() == 1 && known->all_constant()) {
    const std::optional<Dim> element = known->elements[0].as_dim();
    if (element && element->is_constant()) return element->constant();
  }
  if (known && known->all_known())
    return make_error(ErrorKind::unsupported, "E401", concat(what, " depends on dims of the inputs"))
        .with_help("fix the dims it depends on with --dim NAME=SIZE");
  Diagnostic diagnostic = make_error(ErrorKind::unsupported, "E401", concat(what, " depends on data"));
  explain_data(value, diagnostic);
  return diagnostic.with_help("export the model with a fixed number of iterations, or without the loop");
}

// The value of this name when the scan output has no iteration to take it from.
Result<Imported*> Importer::empty_scan(const ValueInfo& declared, const std::string& name) {
  const auto dtype = dtype_of(declared.elem_type);
  std::vector<int64_t> shape = {0};
  bool whole = dtype && declared.shape;
  for (size_t i = 0; whole && i < declared.shape->size(); ++i) {
    whole = (*declared.shape)[i].value.has_value();
    if (whole) shape.push_back(*(*declared.shape)[i].value);
  }
  if (!whole)
    return make_error(ErrorKind::unsupported, "E401",
                      concat("no iteration, and output '", escape_text(declared.name),
                             "' of the body does not declare its type and sizes"));
  RTX_ASSIGN(Value * value, constant(Tensor(*dtype, shape), name, *builder_));
  Imported& imported = values_.emplace_back();
  imported.name = name;
  imported.type = value->type;
  imported.value = value;
  imported.contents_asked = true;
  return &imported;
}

// One iteration: the outputs of the body, in order. `carried`: its inputs from the third on.
Result<std::vector<Imported*>> Importer::run_body(const Graph& body, int64_t iteration, bool condition,
                                                  const std::vector<Imported*>& carried) {
  unrolled_nodes_ += 1 + std::ssize(body.nodes);
  if (unrolled_nodes_ > options_.max_inlined_nodes)
    return make_error(ErrorKind::limit, "E503", "unrolling loops gives too many nodes")
        .with_expected(concat("at most ", options_.max_inlined_nodes))
        .with_help("--max-inlined-nodes");
  scopes_.emplace_back();
  define_initializers(body);
  Imported& number = add(body.inputs[0].name);
  number.contents = Contents{DType::i64, {}, {Element::of(iteration)}};
  number.type = {DType::i64, {}};
  Imported& goes_on = add(body.inputs[1].name);
  goes_on.contents = Contents{DType::boolean, {}, {Element::of(condition ? 1 : 0)}};
  goes_on.type = {DType::boolean, {}};
  number.contents_asked = goes_on.contents_asked = true;
  for (size_t i = 0; i < carried.size(); ++i) scopes_.back()[body.inputs[i + 2].name] = carried[i];
  import_nodes(body);
  std::vector<Imported*> results;
  for (const ValueInfo& output : body.outputs) results.push_back(lookup(output.name));
  scopes_.pop_back();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i])
      return make_error(ErrorKind::invalid, "E203",
                        concat("value '", escape_text(body.outputs[i].name), "' is not defined"));
    if (!results[i]->sequence && iteration == 0) check_declared(body.outputs[i], *results[i], "output");
  }
  return results;
}

// Inputs: trip count, condition, then what is carried from one iteration to the next. Outputs of the body: condition,
// carried values, then one slice of each scan output. Where the node has no input condition, that of the body is
// ignored, as ONNX has it.
Result<void> Importer::unroll_loop(const Node& node, const std::vector<Imported*>& inputs) {
  const Attribute* attribute = node.find("body");
  const auto* graph = attribute ? std::get_if<std::shared_ptr<Graph>>(&attribute->value) : nullptr;
  if (!graph || !*graph) return make_error(ErrorKind::invalid, "E222", "attribute 'body' is missing or is no graph");
  const Graph& body = **graph;
  const std::vector<Imported*> initial(inputs.begin() + std::min<ptrdiff_t>(2, std::ssize(inputs)), inputs.end());
  for (const Imported* value : initial)
    if (!value) return make_error(ErrorKind::invalid, "E221", "a value that the loop carries is left out");
  const size_t count = initial.size();
  if (body.inputs.size() != count + 2 || body.outputs.size() < count + 1 ||
      node.outputs.size() > body.outputs.size() - 1)
    return make_error(ErrorKind::invalid, "E222", "the inputs and outputs of the body do not fit those of the node")
        .with_expected(concat("a body of ", count + 2, " inputs, and ", node.outputs.size() + 1, " outputs or more"))
        .with_got(concat(body.inputs.size(), " inputs, ", body.outputs.size(), " outputs"));
  Imported* const trips = inputs.empty() ? nullptr : inputs[0];
  Imported* const first = inputs.size() < 2 ? nullptr : inputs[1];
  if (trips && !is_one_element(*trips, DType::i64))
    return make_error(ErrorKind::invalid, "E327", "input 0, the number of iterations, must be one int64")
        .with_got(trips->type.str());
  if (first && !is_one_element(*first, DType::boolean))
    return make_error(ErrorKind::invalid, "E327", "input 1, the condition, must be one bool")
        .with_got(first->type.str());

  int64_t most = options_.max_loop_iterations + 1;
  bool condition = true, entered = false;
  std::vector<Imported*> carried = initial;
  std::vector<std::vector<Imported*>> scans(body.outputs.size() - 1 - count);
  const auto unroll = [&]() -> Result<void> {
    if (trips) {
      RTX_ASSIGN(most, control_value(*trips, "the number of iterations"));
    }
    if (first) {
      RTX_ASSIGN(const int64_t value, control_value(*first, "the condition"));
      condition = value != 0;
    }
    for (int64_t i = 0; i < most && condition; ++i) {
      if (i == options_.max_loop_iterations || (trips && !first && most > options_.max_loop_iterations))
        return make_error(ErrorKind::limit, "E503", "the loop has too many iterations to unroll")
            .with_expected(concat("at most ", options_.max_loop_iterations))
            .with_help("--max-loop-iterations");
      entered = true;
      RTX_ASSIGN(std::vector<Imported*> results, run_body(body, i, condition, carried));
      node_ = &node;
      if (selector_) return Ok{};
      for (Imported* result : results)
        if (result->failed) {  // reported at its own node
          for (const std::string& name : node.outputs)
            if (!name.empty()) scopes_.back()[name] = result;
          carried.clear();
          return Ok{};
        }
      if (!is_one_element(*results[0], DType::boolean))
        return make_error(ErrorKind::invalid, "E327", "output 0 of the body, the condition, must be one bool")
            .with_got(results[0]->type.str());
      if (first) {
        RTX_ASSIGN(const int64_t value, control_value(*results[0], "the condition after the first iterations"));
        condition = value != 0;
      }
      carried.assign(results.begin() + 1, results.begin() + 1 + static_cast<ptrdiff_t>(count));
      for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(results[1 + count + k]);
    }
    return Ok{};
  };
  Result<void> done = unroll();
  if (!entered && !done) report_unknown_operators(body);
  if (!done) return done;
  if (!entered && uses_) count_dead(body);
  if (selector_ || carried.size() != count) return Ok{};

  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string& name = node.outputs[i];
    if (name.empty()) continue;
    if (i < count) {
      scopes_.back()[name] = carried[i];
    } else if (std::vector<Imported*>& slices = scans[i - count]; slices.empty()) {
      RTX_ASSIGN(scopes_.back()[name], empty_scan(body.outputs[i + 1], name));
    } else {
      RTX_ASSIGN(scopes_.back()[name], stack(node, name, std::move(slices)));
    }
    check_value_info(*graph_, name);
  }
  return Ok{};
}

// The slices along a new first axis.
Result<Imported*> Importer::stack(const Node& node, const std::string& name, std::vector<Imported*> slices) {
  for (const Imported* slice : slices)
    if (slice->sequence) return make_error(ErrorKind::unsupported, "E404", "a scan output that is a sequence");
  Imported& list = values_.emplace_back();
  list.name = name;
  list.sequence = std::move(slices);
  Node joining;
  joining.name = node.name;
  joining.op_type = "ConcatFromSequence";
  joining.opset = 11;
  joining.outputs = {name};
  for (auto& [attribute_name, value] : {std::pair<const char*, int64_t>{"axis", 0}, {"new_axis", 1}}) {
    Attribute& attribute = joining.attributes.emplace_back();
    attribute.name = attribute_name;
    attribute.value = value;
  }
  RTX_ASSIGN(std::vector<Imported*> joined, convert_in_place(std::move(joining), {&list}));
  return joined[0];
}

}  // namespace rtx::onnx
