// Module, Function, Block, Operation, Value: the SSA form.
//
// Ownership: a Module owns its functions, a function its block, a block its operations, an operation its results and
// (for `fusion`) its body. Everything is referred to by plain pointers that stay valid until the owner is erased;
// moving a Module keeps them valid. Use lists are kept up to date by set_operand, replace_all_uses_with and erase.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/weights.h"

namespace rtx {

class Operation;
class Block;

// One operand slot: a value and its place in that value's list of uses.
struct Use {
  Operation* user = nullptr;
  unsigned index = 0;  // operand number in `user`
};

class Value {
 public:
  Type type;
  // The name in the source file (ONNX output or input name), for diagnostics; may be empty.
  std::string name;

  Operation* def() const { return def_; }  // null for a block argument
  unsigned index() const { return index_; }
  const std::vector<Use>& uses() const { return uses_; }
  bool has_one_use() const { return uses_.size() == 1; }
  void replace_all_uses_with(Value* other);

 private:
  friend class Operation;
  friend class Block;
  Operation* def_ = nullptr;
  unsigned index_ = 0;  // result or argument number
  std::vector<Use> uses_;
};

class Operation {
 public:
  Op op;
  AttributeList attributes;
  // Where it came from, "node_name(OpType)"; several after fusion, in source order. Printed as `from "..."`.
  std::vector<std::string> origins;

  Operation(const Operation&) = delete;
  ~Operation();

  const OpSpec& spec() const { return rtx::spec(op); }
  size_t operand_count() const { return operands_.size(); }
  Value* operand(size_t index) const { return operands_[index]; }
  const std::vector<Value*>& operands() const { return operands_; }
  void set_operand(size_t index, Value* value);
  size_t result_count() const { return results_.size(); }
  Value* result(size_t index = 0) const { return results_[index].get(); }
  Block* block() const { return block_; }
  Block* body() const { return body_.get(); }  // null unless the op has trait_has_body

  std::vector<Type> operand_types() const;
  std::vector<Type> result_types() const;
  bool is(Op other) const { return op == other; }
  bool unused() const;  // no result has a use

 private:
  friend class Block;
  Operation(Op op) : op(op) {}
  Block* block_ = nullptr;
  std::list<std::unique_ptr<Operation>>::iterator position_;
  std::vector<Value*> operands_;
  std::vector<size_t> use_positions_;  // of each operand in its value's list of uses
  std::vector<std::unique_ptr<Value>> results_;
  std::unique_ptr<Block> body_;
};

// A straight list of operations that ends in one `return`.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  ~Block();

  Value* add_argument(Type type, std::string name = {});
  void erase_argument(size_t index);  // must be unused
  size_t argument_count() const { return arguments_.size(); }
  Value* argument(size_t index) const { return arguments_[index].get(); }

  // Inserts before `before` (null: at the end). Types are the caller's to get right; Builder infers them. An op with
  // trait_has_body gets `body`, or an empty block.
  Operation* insert(Operation* before, Op op, std::vector<Value*> operands, AttributeList attributes,
                    std::vector<Type> result_types, std::unique_ptr<Block> body = nullptr);
  // The operation must be unused.
  void erase(Operation* operation);
  void move_before(Operation* operation, Operation* before);

  // Iterate with `for (auto& op : block.operations())` where each is unique_ptr<Operation>. Erasing the current
  // operation invalidates the iterator: advance first.
  const std::list<std::unique_ptr<Operation>>& operations() const { return operations_; }
  size_t size() const { return operations_.size(); }
  // The `return`; null while the block is being built.
  Operation* terminator() const;
  Operation* next(Operation* operation) const;

 private:
  std::vector<std::unique_ptr<Value>> arguments_;
  std::list<std::unique_ptr<Operation>> operations_;
};

// A function that is one of two: it is for calls where the named argument, a bool of one element, has this value.
struct Selector {
  std::string input;
  bool value = false;
  bool operator==(const Selector&) const = default;
};

// One program. Arguments carry the input names in Value::name; `output_names` name the operands of `return`.
struct Function {
  std::string name;
  Block block;
  std::vector<std::string> output_names;
  std::optional<Selector> when;  // none: for every call
};

// Which ops may occur; each stage includes what the earlier passes promise (docs/ir.md).
enum class Stage : uint8_t { imported, canonical, fused, planned };
std::string_view to_string(Stage stage);
std::optional<Stage> parse_stage(std::string_view text);

struct Module {
  Stage stage = Stage::imported;
  SymbolRanges symbols;
  std::vector<std::unique_ptr<Function>> functions;
  // The data that `weight` operations name. Shared so that a clone of the module can use it too.
  std::shared_ptr<WeightStore> weights = std::make_shared<WeightStore>();

  Function* find(std::string_view name) const;
  Function* add_function(std::string name);
  // Replaces a symbol in every type and attribute and drops it from `symbols`.
  void substitute(std::string_view symbol, const Dim& replacement);
  std::unique_ptr<Module> clone() const;
};

// Appends a copy of the operations of `from` (all but `return`) to `to`, mapping arguments to `arguments`. Returns the
// mapped operands of the `return`.
std::vector<Value*> inline_block(const Block& from, Block& to, Operation* before, std::span<Value* const> arguments);

// Creates operations with inferred types.
class Builder {
 public:
  explicit Builder(Block& block, Operation* before = nullptr) : block_(&block), before_(before) {}

  // Fills in default attributes in the order of the record, checks operand dtypes and attribute kinds, infers. An
  // error has no place: the caller adds the node.
  Result<Operation*> create(Op op, std::vector<Value*> operands, AttributeList attributes = {});
  // The only result of create().
  Result<Value*> value(Op op, std::vector<Value*> operands, AttributeList attributes = {});
  Result<Value*> constant(Tensor tensor);
  void set_insertion_point(Operation* before) { before_ = before; }
  Block& block() const { return *block_; }

  // Copied to every created operation.
  std::vector<std::string> origins;
  // Passed to infer (see InferContext::unify). Asked dims that are made equal must be substituted by the callee; create
  // then infers again with the new operand types.
  std::function<bool(const Dim&, const Dim&)> unify;
  // Called after unify substituted a symbol, to substitute it in the attributes of the operation being created.
  std::function<void(AttributeList&)> rewrite_attributes;

 private:
  Block* block_;
  Operation* before_;
};

// Checks operand count, dtypes and attributes against the record, fills defaults in place, and infers.
Result<std::vector<Type>> infer_types(Op op, std::span<const Type> operands, AttributeList& attributes,
                                      std::function<bool(const Dim&, const Dim&)>* unify = nullptr);

}  // namespace rtx
