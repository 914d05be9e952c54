// Computes single elements of the values of a fusion body: given where in the value, writes C statements and returns
// the name of the register that holds the element. Works backwards from what is asked for, through any DAG of
// elementwise, movement and indexing operations and rope; each element is computed once per scope. Nothing is read
// outside a buffer, whatever the indices in the data are.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/emit/kernel_writer.h"
#include "ir/module.h"

namespace rtx::codegen {

// One element of a value: a row-major index, or one coordinate an axis. C expressions of index type, each a name, a
// literal or cheap.
struct Position {
  std::string linear;               // set: coords are not
  std::vector<std::string> coords;  // in the order of the axes

  static Position at(std::string linear) { return {std::move(linear), {}}; }
  static Position at(std::vector<std::string> coords) { return {{}, std::move(coords)}; }
  bool is_linear() const { return !linear.empty(); }
  std::string key() const;
};

class ElementEmitter {
 public:
  // Argument i of the body is read through the kernel parameter `a<i>`.
  ElementEmitter(KernelWriter& writer, const Block& body);

  // True if the emitter can compute elements through this operation.
  static bool handles(Op op);

  std::string element(const Value* value, const Position& at);
  // From now on every element of `value` is the register `name`: for values a kernel computes itself, or has loaded.
  void bind(const Value* value, std::string name) {
    bind(value, [name = std::move(name)](const Position&) { return name; });
  }
  // The same with a register that depends on the position; an empty one where the element is computed as usual.
  using Binding = std::function<std::string(const Position&)>;
  void bind(const Value* value, Binding binding) { bound_[value] = std::move(binding); }
  void unbind(const Value* value) { bound_.erase(value); }
  // Scopes of computed elements, to be opened and closed together with those of the writer.
  void push_scope() { known_.emplace_back(); }
  void pop_scope() { known_.pop_back(); }

  // One coordinate of a position in a value of this shape; a temporary where it must be computed.
  std::string coordinate(const Shape& shape, const Position& at, size_t axis);
  std::vector<std::string> coordinates(const Shape& shape, const Position& at);
  std::string linear(const Shape& shape, const Position& at);
  // Where an operand of shape `from` is read for position `at` of the broadcast result.
  Position broadcast_position(const Shape& from, const Shape& to, const Position& at);

 private:
  std::string compute(const Operation& operation, const Position& at);
  std::string load(const Value* argument, const Position& at);
  std::string concat(const Operation& operation, const Position& at);
  std::string slice(const Operation& operation, const Position& at);
  std::string pad(const Operation& operation, const Position& at);
  std::string rope(const Operation& operation, const Position& at);
  std::string guarded(const Dim& bound, DType dtype, const std::function<std::string()>& element);
  std::string wrapped_index(const Value* indices, const Position& at, const Dim& bound);
  void begin(std::string header);
  void alternate(std::string header);
  void end();

  KernelWriter& writer_;
  std::map<const Value*, std::string> arguments_;
  std::map<const Value*, Binding> bound_;
  std::vector<std::map<std::pair<const Value*, std::string>, std::string>> known_{1};
};

}  // namespace rtx::codegen
