// Conversion: one ONNX node being turned into IR, as its converter sees it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/model.h"
#include "frontend/symbolic.h"
#include "ir/module.h"

namespace rtx::onnx {

class Importer;

// A value of the ONNX graph while it is imported. It is emitted into the IR only when something needs it as data.
struct Imported {
  std::string name;
  Type type;
  Value* value = nullptr;                    // once emitted
  std::optional<Contents> contents;          // when the elements are known (some may not be)
  bool contents_asked = false;               // a stored tensor was looked at already
  const WeightEntry* stored = nullptr;       // an initializer or Constant
  const std::string* unsupported = nullptr;  // the element type of a stored tensor that the IR does not have
  const Node* producer = nullptr;            // null for graph inputs and initializers
  std::vector<Imported*> sources;            // the inputs of its node; null where one is left out
  // The value is a list of tensors, of known length; only operators on sequences take it. All else is unset then.
  std::optional<std::vector<Imported*>> sequence;
  bool failed = false;  // its node could not be converted; users fail silently
};

// Errors carry no place: the importer adds the node.
class Conversion {
 public:
  Conversion(Importer& importer, const Node& node, Builder& builder, std::vector<Imported*> inputs)
      : importer_(importer),
        node_(node),
        builder_(builder),
        inputs_(std::move(inputs)),
        outputs_(node.outputs.size()) {}

  const Node& node() const { return node_; }
  const SymbolRanges& ranges() const;

  // ---- Inputs. Index past the end or an empty name: absent. Asking for the type or the data of an absent input is an
  // error of the node (E221), reported when the converter returns.
  size_t input_count() const { return inputs_.size(); }
  bool has(size_t index) const { return index < inputs_.size() && inputs_[index]; }
  const Type& type(size_t index) const;
  int rank(size_t index) const { return type(index).rank(); }
  // As data: emits constants, weights and known contents on first use.
  Result<Value*> input(size_t index);
  // All elements as far as they are known; null when nothing is.
  const Contents* contents(size_t index);
  // The elements of a 0-D or 1-D integer input as dims. E402 when they depend on data.
  Result<std::vector<Dim>> dims(size_t index);
  // The same of an input that is a shape: it must be 1-D.
  Result<std::vector<Dim>> shape_input(size_t index);
  // As dims(), constant.
  Result<std::vector<int64_t>> integers(size_t index);
  Result<int64_t> integer_input(size_t index);
  // A constant input of any type. E402 otherwise.
  Result<Tensor> constant_input(size_t index);

  // The elements of an input that is a sequence; null for a tensor.
  const std::vector<Imported*>* sequence(size_t index) const;
  // The input as an element of a sequence.
  Imported* element(size_t index) const { return inputs_[index]; }

  // ---- Attributes. A value of another kind than asked for is an error (E324), reported when the converter returns.
  bool has_attribute(std::string_view name) const { return node_.find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t fallback);
  double real(std::string_view name, double fallback);
  std::string string(std::string_view name, std::string_view fallback);
  std::optional<std::vector<int64_t>> integer_list(std::string_view name);
  // One entry for each of `count` spatial axes, all in [0, 2^31); `fallback` for each where the attribute is missing.
  Result<std::vector<int64_t>> spatial_list(std::string_view name, size_t count, int64_t fallback);
  // What came up in a function that cannot return an error.
  const Error* deferred_error() const { return deferred_error_ ? &*deferred_error_ : nullptr; }
  template <typename T>
  const T* attribute(std::string_view name);

  // ---- Outputs. What is set for an output that the node does not have is dropped.
  size_t output_count() const { return outputs_.size(); }
  bool wants(size_t index) const { return index < outputs_.size() && !node_.outputs[index].empty(); }
  void set(size_t index, Value* value);
  void set(size_t index, Contents contents);
  // The output is the input: no operation.
  void alias(size_t output, size_t input);
  void set_stored(size_t index, const WeightEntry& entry);
  void set(size_t index, std::vector<Imported*> sequence);
  void alias_value(size_t output, Imported* value);

  // Converts a node of the default domain in the place of this one, which is a combination of such nodes. A null input
  // is absent. Returns its outputs.
  Result<std::vector<Imported*>> apply(std::string op_type, int64_t opset, std::vector<Imported*> inputs,
                                       std::vector<Attribute> attributes, size_t outputs);
  // A 1-D i64 input for apply.
  Imported* known(const std::vector<Dim>& dims);

  struct Output {
    Value* value = nullptr;
    std::optional<Contents> contents;
    Imported* alias = nullptr;
    const WeightEntry* stored = nullptr;
    std::optional<std::vector<Imported*>> sequence;
  };
  std::vector<Output>& outputs() { return outputs_; }

  // ---- Emitting. Each returns its operand unchanged where there is nothing to do.
  Result<Value*> emit(Op op, std::vector<Value*> operands, AttributeList attributes = {});
  // The same for an operation of several results.
  Result<Operation*> create(Op op, std::vector<Value*> operands, AttributeList attributes = {});
  Result<Value*> constant(Tensor tensor);
  // A rank-0 constant.
  Result<Value*> scalar(DType dtype, double value);
  // A rank-0 i64 value, constant or not.
  Result<Value*> dim_scalar(const Dim& dim);
  Result<Value*> cast(Value* value, DType dtype, bool saturate = true);
  Result<Value*> reshape(Value* value, Shape shape);
  Result<Value*> broadcast(Value* value, Shape shape);
  Result<Value*> transpose(Value* value, std::vector<int64_t> perm);
  // Elements [start, start + size) of one axis.
  Result<Value*> slice(Value* value, int axis, const Dim& start, const Dim& size);
  // 0, 1, 2, ... along `axis` of a shape that is 1 elsewhere.
  Result<Value*> iota(DType dtype, int rank, int axis, const Dim& size);
  Result<Value*> reduce(Op op, Value* value, std::vector<int64_t> axes, bool keepdims);

  // ---- Checks
  // E327 unless input `index` (or the value) has this rank.
  Result<void> need_rank(size_t index, int rank) const;
  Result<void> need_rank(const Value* value, int rank) const;
  // `axis` from the end if negative; E326 outside [-rank, rank).
  Result<int> axis(int64_t axis, int rank) const;
  Result<std::vector<int64_t>> axes(std::vector<int64_t> axes, int rank) const;
  // Makes the two dims equal by fixing a symbol, if that can be; reports it as a warning once.
  bool unify(const Dim& a, const Dim& b);
  // `dim` with every symbol replaced that unify has fixed since it was made.
  Dim fresh(const Dim& dim) const;
  // Takes `dim` to be at most `bound` by shrinking the range of its symbol, with a warning. Does nothing where the dim
  // has more than one symbol.
  void limit(const Dim& dim, int64_t bound);
  void warn(std::string_view id, std::string message);

  // ---- Errors to return
  Diagnostic unsupported(std::string reason) const;
  Diagnostic invalid(std::string_view id, std::string message) const;
  // E402 for input `index`, with the chain of nodes that leads to it.
  Diagnostic depends_on_data(size_t index) const;

 private:
  friend class Importer;
  Importer& importer_;
  const Node& node_;
  Builder& builder_;
  std::vector<Imported*> inputs_;
  std::vector<Output> outputs_;
  Diagnostic absent(size_t index) const;
  mutable std::optional<Error> deferred_error_;
};

template <typename T>
const T* Conversion::attribute(std::string_view name) {
  const Attribute* found = node_.find(name);
  if (!found) return nullptr;
  if (const T* value = std::get_if<T>(&found->value)) return value;
  if (!deferred_error_) deferred_error_ = invalid("E324", "attribute '" + escape_text(name) + "' has the wrong kind");
  return nullptr;
}

}  // namespace rtx::onnx
