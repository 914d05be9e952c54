#include "passes/shrink_dims.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace rtx {

namespace {

void collect(const Shape& shape, std::set<int64_t>& sizes) {
  for (const Dim& dim : shape) {
    if (dim.is_constant() && dim.constant() > 1) sizes.insert(dim.constant());
  }
}

void replace(Shape& shape, int64_t from, int64_t to) {
  for (Dim& dim : shape) {
    if (dim.is(from)) dim = to;
  }
}

// The elements of `tensor` at the indices that `shape`, no larger on any axis, has.
Tensor first_elements(const Tensor& tensor, std::vector<int64_t> shape) {
  Tensor result(tensor.dtype, std::move(shape));
  const std::vector<int64_t> strides = row_major_strides(tensor.shape);
  const std::vector<int64_t> own = row_major_strides(result.shape);
  for (int64_t i = 0, n = result.element_count(); i < n; ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < own.size(); ++axis) from += i / own[axis] % result.shape[axis] * strides[axis];
    is_float(tensor.dtype) ? result.set_f64(i, tensor.f64(from)) : result.set_i64(i, tensor.i64(from));
  }
  return result;
}

std::vector<int64_t> shrunk(std::vector<int64_t> shape, int64_t from, int64_t to) {
  std::replace(shape.begin(), shape.end(), from, to);
  return shape;
}

bool shrink_weight(Module& module, Operation& weight, int64_t from, int64_t to) {
  Shape shape = weight.attributes.dims("shape");
  if (std::none_of(shape.begin(), shape.end(), [&](const Dim& dim) { return dim.is(from); })) return true;
  const std::string old_name = weight.attributes.string("name");
  replace(shape, from, to);
  const std::string name = concat(old_name, ".", from, "to", to);
  weight.attributes.set("shape", shape);
  weight.attributes.set("name", name);
  if (!module.weights->find(old_name) || module.weights->find(name)) return true;
  const Result<Tensor> data = module.weights->load(old_name);
  if (!data) return false;
  module.weights->add(name, first_elements(*data, shrunk(data->shape, from, to)));
  return true;
}

bool shrink(Module& module, Operation& operation, int64_t from, int64_t to) {
  if (operation.is(Op::weight)) {
    if (!shrink_weight(module, operation, from, to)) return false;
  } else if (operation.is(Op::constant)) {
    const Tensor& value = operation.attributes.tensor("value");
    operation.attributes.set("value", first_elements(value, shrunk(value.shape, from, to)));
  } else {
    const auto entries = operation.attributes.entries();
    for (const auto& [name, value] : entries) {
      const auto* dims = std::get_if<std::vector<Dim>>(&value);
      if (!dims) continue;
      Shape shape = *dims;
      replace(shape, from, to);
      operation.attributes.set(name, std::move(shape));
    }
  }
  if (operation.is(Op::yield)) return true;
  if (operation.is(Op::fusion)) return false;
  const std::vector<Type> operands = operation.operand_types();
  const Result<std::vector<Type>> types = infer_types(operation.op, operands, operation.attributes);
  if (!types) return false;
  for (size_t i = 0; i < types->size(); ++i) operation.result(i)->type = (*types)[i];
  return true;
}

}  // namespace

std::vector<int64_t> static_sizes(const Module& module) {
  std::set<int64_t> sizes;
  for (const auto& function : module.functions) {
    for (size_t i = 0; i < function->block.argument_count(); ++i)
      collect(function->block.argument(i)->type.shape, sizes);
    for (const auto& operation : function->block.operations()) {
      for (const Type& type : operation->result_types()) collect(type.shape, sizes);
    }
  }
  return {sizes.begin(), sizes.end()};
}

std::unique_ptr<Module> with_static_size(const Module& module, int64_t from, int64_t to) {
  std::unique_ptr<Module> copy = module.clone();
  copy->weights = std::make_shared<WeightStore>(*module.weights);
  for (const auto& function : copy->functions) {
    for (size_t i = 0; i < function->block.argument_count(); ++i)
      replace(function->block.argument(i)->type.shape, from, to);
    for (const auto& operation : function->block.operations()) {
      if (!shrink(*copy, *operation, from, to)) return nullptr;
    }
  }
  return copy;
}

}  // namespace rtx
