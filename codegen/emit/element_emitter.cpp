#include "codegen/emit/element_emitter.h"

#include "base/text.h"
#include "codegen/emit/c_types.h"
#include "codegen/emit/scalar_ops.h"

namespace rtx::codegen {
namespace {

Dim product(const Shape& shape, size_t from, size_t to) {
  Dim result(1);
  for (size_t i = from; i < to; ++i) result = result * shape[i];
  return result;
}

std::string literal(DType dtype, const Tensor& value, int64_t index) {
  return is_float(dtype) ? float_literal(dtype, value.f64(index)) : integer_literal(dtype, value.i64(index));
}

}  // namespace

std::string Position::key() const { return is_linear() ? linear : rtx::concat("[", join(coords, ","), "]"); }

ElementEmitter::ElementEmitter(KernelWriter& writer, const Block& body) : writer_(writer) {
  for (size_t i = 0; i < body.argument_count(); ++i) arguments_[body.argument(i)] = rtx::concat("a", i);
}

bool ElementEmitter::handles(Op op) {
  if (is_scalar_op(op)) return true;
  const OpFamily family = spec(op).family;
  return family == OpFamily::movement || family == OpFamily::indexing || op == Op::constant || op == Op::dim_values ||
         op == Op::rope;
}

std::string ElementEmitter::coordinate(const Shape& shape, const Position& at, size_t axis) {
  if (shape[axis].is(1)) return "0";
  if (!at.is_linear()) return at.coords[axis];
  const std::string outer = KernelWriter::divide(at.linear, writer_.dim(product(shape, axis + 1, shape.size())));
  // What is left of the first axis that is longer than 1 needs no remainder.
  const bool first = product(shape, 0, axis).is(1);
  const std::string text = first ? outer : KernelWriter::remainder(outer, writer_.dim(shape[axis]));
  return writer_.temporary(writer_.index_type(), "i", text);
}

std::vector<std::string> ElementEmitter::coordinates(const Shape& shape, const Position& at) {
  std::vector<std::string> coords;
  for (size_t axis = 0; axis < shape.size(); ++axis) coords.push_back(coordinate(shape, at, axis));
  return coords;
}

std::string ElementEmitter::linear(const Shape& shape, const Position& at) {
  if (at.is_linear()) return at.linear;
  std::string index = "0";
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    index = KernelWriter::add(KernelWriter::multiply(index, writer_.dim(shape[axis])), at.coords[axis]);
  }
  return writer_.temporary(writer_.index_type(), "i", index);
}

Position ElementEmitter::broadcast_position(const Shape& from, const Shape& to, const Position& at) {
  if (from == to) return at;
  const size_t offset = to.size() - from.size();
  // Axes [first, last) of `to` that are kept; others are dropped (read at 0), unless they have length 1 anyway.
  auto kept = [&](size_t axis) { return axis >= offset && from[axis - offset] == to[axis] && !to[axis].is(1); };
  auto dropped = [&](size_t axis) { return !kept(axis) && !to[axis].is(1); };
  size_t first = to.size(), last = 0;
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (!kept(axis)) continue;
    first = std::min(first, axis);
    last = axis + 1;
  }
  if (first >= last) return Position::at("0");
  bool one_run = true;
  for (size_t axis = first; axis < last; ++axis) one_run = one_run && !dropped(axis);
  if (at.is_linear() && one_run) {
    const std::string outer = KernelWriter::divide(at.linear, writer_.dim(product(to, last, to.size())));
    const bool whole = product(to, 0, first).is(1);
    const std::string text = whole ? outer : KernelWriter::remainder(outer, writer_.dim(product(to, first, last)));
    return Position::at(writer_.temporary(writer_.index_type(), "i", text));
  }
  std::vector<std::string> coords;
  for (size_t axis = offset; axis < to.size(); ++axis) {
    coords.push_back(kept(axis) ? coordinate(to, at, axis) : "0");
  }
  return Position::at(std::move(coords));
}

void ElementEmitter::begin(std::string header) {
  writer_.open(std::move(header));
  push_scope();
}

void ElementEmitter::alternate(std::string header) {
  pop_scope();
  writer_.between(std::move(header));
  push_scope();
}

void ElementEmitter::end() {
  pop_scope();
  writer_.close();
}

std::string ElementEmitter::element(const Value* value, const Position& at) {
  if (auto bound = bound_.find(value); bound != bound_.end()) {
    const Binding binding = bound->second;  // it may bind others
    if (std::string name = binding(at); !name.empty()) return name;
  }
  const std::pair<const Value*, std::string> key(value, at.key());
  for (auto scope = known_.rbegin(); scope != known_.rend(); ++scope) {
    if (auto found = scope->find(key); found != scope->end()) return found->second;
  }
  const std::string name = value->def() ? compute(*value->def(), at) : load(value, at);
  known_.back().emplace(key, name);
  return name;
}

std::string ElementEmitter::load(const Value* argument, const Position& at) {
  const DType dtype = argument->type.dtype;
  const std::string index = linear(argument->type.shape, at);
  const std::string text = load_expression(writer_, dtype, arguments_.at(argument), index);
  const std::string name = writer_.fresh("v");
  writer_.line(rtx::concat("const ", register_type(dtype), " ", name, " = ", text, ";"));
  return name;
}

// `element()` where `bound` is at least 1, else 0: an axis of length 0 has nothing to read.
std::string ElementEmitter::guarded(const Dim& bound, DType dtype, const std::function<std::string()>& element) {
  if (bound.lower_bound(writer_.symbols()) >= 1) return element();
  const std::string name = writer_.fresh("v");
  writer_.line(rtx::concat(register_type(dtype), " ", name, " = 0;"));
  begin(rtx::concat("if (", writer_.dim(bound), " > 0) {"));
  writer_.line(rtx::concat(name, " = ", element(), ";"));
  end();
  return name;
}

std::string ElementEmitter::wrapped_index(const Value* indices, const Position& at, const Dim& bound) {
  const std::string raw = element(indices, at);
  const std::string text = rtx::concat(writer_.call("rtx_index"), "(", raw, ", ", writer_.dim64(bound), ")");
  return writer_.temporary(writer_.index_type(), "i", writer_.wide() ? text : rtx::concat("(int)", text));
}

std::string ElementEmitter::concat(const Operation& operation, const Position& at) {
  const Type& type = operation.result()->type;
  const size_t axis = static_cast<size_t>(operation.attributes.integer("axis"));
  if (operation.operand_count() == 1) return element(operation.operand(0), at);
  std::vector<std::string> coords = coordinates(type.shape, at);
  const std::string name = writer_.fresh("v");
  writer_.line(rtx::concat(register_type(type.dtype), " ", name, ";"));
  Dim begin_of_part(0);
  const std::string whole = coords[axis];
  for (size_t i = 0; i < operation.operand_count(); ++i) {
    const Value* part = operation.operand(i);
    const Dim end_of_part = begin_of_part + part->type.shape[axis];
    const bool last = i + 1 == operation.operand_count();
    const std::string test = rtx::concat("if (", whole, " < ", writer_.dim(end_of_part), ") {");
    if (i == 0) {
      begin(test);
    } else {
      alternate(last ? "} else {" : rtx::concat("} else ", test));
    }
    coords[axis] =
        part->type.shape[axis].is(1) || begin_of_part.is(0)
            ? (part->type.shape[axis].is(1) ? "0" : whole)
            : writer_.temporary(writer_.index_type(), "i", rtx::concat(whole, " - ", writer_.dim(begin_of_part)));
    const std::string from = element(part, Position::at(coords));
    writer_.line(rtx::concat(name, " = ", from, ";"));
    begin_of_part = end_of_part;
  }
  end();
  return name;
}

std::string ElementEmitter::slice(const Operation& operation, const Position& at) {
  const Shape &shape = operation.result()->type.shape, &from = operation.operand(0)->type.shape;
  const std::vector<Dim>& starts = operation.attributes.dims("starts");
  const std::vector<int64_t>& steps = operation.attributes.integers("steps");
  std::vector<std::string> coords;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const std::string moved = KernelWriter::multiply(coordinate(shape, at, axis), writer_.dim(steps[axis]));
    std::string index = KernelWriter::add(writer_.dim(starts[axis]), moved);
    const Dim last = starts[axis] + (shape[axis] - 1) * Dim(steps[axis]);
    // The verifier knows constant bounds only; where the symbols could lead outside, the index is clamped.
    bool inside = true;
    for (const Dim& end : {starts[axis], last}) {
      inside = inside && end.lower_bound(writer_.symbols()) >= 0 &&
               (from[axis] - 1 - end).lower_bound(writer_.symbols()) >= 0;
    }
    if (!inside && !(starts[axis].is(0) && shape[axis] == from[axis])) {
      index = rtx::concat(writer_.wide() ? "" : "(int)", writer_.call("rtx_clamp"), "(", index, ", ",
                          writer_.dim64(from[axis]), ")");
    }
    coords.push_back(writer_.temporary(writer_.index_type(), "i", index));
  }
  return element(operation.operand(0), Position::at(std::move(coords)));
}

std::string ElementEmitter::pad(const Operation& operation, const Position& at) {
  const Type& type = operation.result()->type;
  const Value* x = operation.operand(0);
  const std::vector<Dim>& low = operation.attributes.dims("low");
  const std::vector<Dim>& high = operation.attributes.dims("high");
  std::vector<std::string> coords = coordinates(type.shape, at), tests;
  for (size_t axis = 0; axis < coords.size(); ++axis) {
    if (low[axis].is(0) && high[axis].is(0)) continue;
    if (!low[axis].is(0)) {
      coords[axis] =
          writer_.temporary(writer_.index_type(), "i", rtx::concat(coords[axis], " - ", writer_.dim(low[axis])));
    }
    tests.push_back(rtx::concat(coords[axis], " >= 0 && ", coords[axis], " < ", writer_.dim(x->type.shape[axis])));
  }
  if (tests.empty()) return element(x, at);
  const std::string name = writer_.fresh("v");
  writer_.line(rtx::concat(register_type(type.dtype), " ", name, ";"));
  begin(rtx::concat("if (", join(tests, " && "), ") {"));
  writer_.line(rtx::concat(name, " = ", element(x, Position::at(coords)), ";"));
  alternate("} else {");
  writer_.line(rtx::concat(name, " = ", element(operation.operand(1), Position::at("0")), ";"));
  end();
  return name;
}

// Element d is one of a pair (a, b): a cos - b sin, or b cos + a sin.
std::string ElementEmitter::rope(const Operation& operation, const Position& at) {
  const Type& type = operation.result()->type;
  const Value* x = operation.operand(0);
  const int64_t size = type.shape.back().constant();
  const int64_t pairs = operation.operand(1)->type.shape.back().constant();
  if (pairs == 0) return element(x, at);
  const std::string_view index = writer_.index_type();
  std::vector<std::string> coords = coordinates(type.shape, at);
  const std::string d = coords.back(), own = element(x, Position::at(coords));
  const std::string name = writer_.fresh("v");
  writer_.line(rtx::concat(register_type(type.dtype), " ", name, " = ", own, ";"));
  begin(2 * pairs == size ? std::string("{") : rtx::concat("if (", d, " < ", 2 * pairs, ") {"));
  const bool interleaved = operation.attributes.boolean("interleaved");
  const std::string second =
      writer_.temporary("bool", "second", interleaved ? rtx::concat(d, " % 2 != 0") : rtx::concat(d, " >= ", pairs));
  const std::string pair = writer_.temporary(
      index, "i", interleaved ? rtx::concat(d, " / 2") : rtx::concat(d, " - (", second, " ? ", pairs, " : 0)"));
  const int64_t step = interleaved ? 1 : pairs;
  coords.back() = writer_.temporary(index, "i", rtx::concat(d, " + (", second, " ? -", step, " : ", step, ")"));
  const std::string other = element(x, Position::at(coords));
  Shape turned = type.shape;
  turned.back() = pairs;
  coords.back() = pair;
  std::string factors[2];
  for (size_t i = 0; i < 2; ++i) {
    const Value* table = operation.operand(i + 1);
    factors[i] = element(table, broadcast_position(table->type.shape, turned, Position::at(coords)));
  }
  const std::string y =
      rtx::concat(own, " * ", factors[0], " + (", second, " ? ", other, " : -", other, ") * ", factors[1]);
  writer_.line(rtx::concat(name, " = ", round_expression(writer_, type.dtype, y), ";"));
  end();
  return name;
}

std::string ElementEmitter::compute(const Operation& operation, const Position& at) {
  const Type& type = operation.result()->type;
  const Shape& shape = type.shape;
  const AttributeList& attributes = operation.attributes;
  auto operand_shape = [&](size_t i) -> const Shape& { return operation.operand(i)->type.shape; };

  if (is_scalar_op(operation.op)) {
    std::vector<std::string> operands;
    for (const Value* operand : operation.operands()) {
      operands.push_back(element(operand, broadcast_position(operand->type.shape, shape, at)));
    }
    const std::string text = *scalar_expression(writer_, operation, operands);
    const std::string name = writer_.fresh("v");
    writer_.line(rtx::concat("const ", register_type(type.dtype), " ", name, " = ", text, ";"));
    return name;
  }
  switch (operation.op) {
    case Op::constant: {
      const Tensor& value = attributes.tensor("value");
      if (value.element_count() == 1) return literal(type.dtype, value, 0);
      // A table in the text; bodies hold only small ones.
      const std::string table = writer_.fresh("table");
      std::vector<std::string> elements;
      for (int64_t i = 0; i < value.element_count(); ++i) elements.push_back(literal(type.dtype, value, i));
      writer_.line(rtx::concat("const ", register_type(type.dtype), " ", table, "[] = {", join(elements, ", "), "};"));
      return rtx::concat(table, "[", linear(shape, at), "]");
    }
    case Op::dim_values: {
      const std::vector<Dim>& values = attributes.dims("values");
      if (values.empty()) return "0LL";
      if (values.size() == 1) return writer_.temporary("long long", "v", writer_.dim64(values[0]));
      const std::string index = coordinate(shape, at, 0);
      std::string text;
      for (size_t i = 0; i + 1 < values.size(); ++i) {
        text += rtx::concat(index, " == ", i, " ? ", writer_.dim64(values[i]), " : ");
      }
      return writer_.temporary("long long", "v", text + writer_.dim64(values.back()));
    }
    case Op::iota: {
      const std::string index = coordinate(shape, at, static_cast<size_t>(attributes.integer("axis")));
      const DType from = writer_.wide() ? DType::i64 : DType::i32;
      return writer_.temporary(register_type(type.dtype), "v", cast_expression(writer_, from, type.dtype, true, index));
    }
    case Op::reshape:
      return element(operation.operand(0), Position::at(linear(shape, at)));
    case Op::broadcast:
      return element(operation.operand(0), broadcast_position(operand_shape(0), shape, at));
    case Op::transpose: {
      const std::vector<int64_t>& perm = attributes.integers("perm");
      std::vector<std::string> coords(perm.size());
      for (size_t axis = 0; axis < perm.size(); ++axis) {
        coords[static_cast<size_t>(perm[axis])] = coordinate(shape, at, axis);
      }
      return element(operation.operand(0), Position::at(std::move(coords)));
    }
    case Op::rope:
      return rope(operation, at);
    case Op::slice:
      return slice(operation, at);
    case Op::concat:
      return concat(operation, at);
    case Op::pad:
      return pad(operation, at);
    case Op::unpack_bits: {
      const int64_t bits = attributes.integer("bits"), fields = 8 / bits;
      const std::string index = linear(shape, at);
      const std::string byte = element(
          operation.operand(0),
          Position::at(writer_.temporary(writer_.index_type(), "i", KernelWriter::divide(index, rtx::concat(fields)))));
      return writer_.temporary(
          register_type(type.dtype), "v",
          rtx::concat(byte, " >> (int)(", index, " % ", fields, ") * ", bits, " & ", (1 << bits) - 1));
    }
    case Op::gather: {
      const size_t axis = static_cast<size_t>(attributes.integer("axis"));
      const Value *data = operation.operand(0), *indices = operation.operand(1);
      const size_t index_rank = indices->type.shape.size();
      std::vector<std::string> coords = coordinates(shape, at);
      std::vector<std::string> index_at(coords.begin() + static_cast<long>(axis),
                                        coords.begin() + static_cast<long>(axis + index_rank));
      return guarded(data->type.shape[axis], type.dtype, [&] {
        coords.erase(coords.begin() + static_cast<long>(axis), coords.begin() + static_cast<long>(axis + index_rank));
        const Position index_position = index_at.empty() ? Position::at("0") : Position::at(index_at);
        coords.insert(coords.begin() + static_cast<long>(axis),
                      wrapped_index(indices, index_position, data->type.shape[axis]));
        return element(data, Position::at(coords));
      });
    }
    case Op::gather_elements: {
      const size_t axis = static_cast<size_t>(attributes.integer("axis"));
      const Value *data = operation.operand(0), *indices = operation.operand(1);
      std::vector<std::string> coords = coordinates(shape, at);
      return guarded(data->type.element_count(), type.dtype, [&] {
        for (size_t i = 0; i < coords.size(); ++i) {
          // Indices that could be longer than data on another axis than this one are clamped there.
          const Dim& length = data->type.shape[i];
          if (i == axis || (length - shape[i]).lower_bound(writer_.symbols()) >= 0) continue;
          coords[i] = writer_.temporary(writer_.index_type(), "i",
                                        rtx::concat(writer_.wide() ? "" : "(int)", writer_.call("rtx_clamp"), "(",
                                                    coords[i], ", ", writer_.dim64(length), ")"));
        }
        coords[axis] = wrapped_index(indices, at, data->type.shape[axis]);
        return element(data, Position::at(coords));
      });
    }
    case Op::gather_nd: {
      const size_t batch = static_cast<size_t>(attributes.integer("batch_dims"));
      const Value *data = operation.operand(0), *indices = operation.operand(1);
      const size_t index_rank = indices->type.shape.size();
      const size_t depth = static_cast<size_t>(indices->type.shape.back().constant());
      const std::vector<std::string> coords = coordinates(shape, at);
      Dim bound(1);
      for (size_t i = 0; i < depth; ++i) bound = bound * data->type.shape[batch + i];
      return guarded(bound, type.dtype, [&] {
        std::vector<std::string> from(coords.begin(), coords.begin() + static_cast<long>(batch));
        std::vector<std::string> tuple(coords.begin(), coords.begin() + static_cast<long>(index_rank - 1));
        tuple.emplace_back();
        for (size_t i = 0; i < depth; ++i) {
          tuple.back() = rtx::concat(i);
          from.push_back(wrapped_index(indices, Position::at(tuple), data->type.shape[batch + i]));
        }
        from.insert(from.end(), coords.begin() + static_cast<long>(index_rank - 1), coords.end());
        return element(data, Position::at(from));
      });
    }
    default:
      break;
  }
  assert(false && "ElementEmitter::handles was not asked");
  return "0";
}

}  // namespace rtx::codegen
