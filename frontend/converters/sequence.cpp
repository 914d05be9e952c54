// Sequences that are known while importing: a list of tensors that were split, constructed or inserted, taken apart
// again by constant positions (H12). No value of a sequence exists in the IR.

#include "frontend/converters/tables.h"

namespace rtx::onnx {
namespace {

Attribute integer_attribute(std::string name, int64_t value) {
  Attribute attribute;
  attribute.name = std::move(name);
  attribute.value = value;
  return attribute;
}

Result<const std::vector<Imported*>*> need_sequence(Conversion& c) {
  if (const auto* elements = c.sequence(0)) return elements;
  return c.invalid("E327", "input 0 must be a sequence").with_got(c.type(0).str());
}

// Input `index`, a constant scalar; [] and [1] are taken. From the end if negative; E333 unless it is then below
// `count`.
Result<size_t> position(Conversion& c, size_t index, int64_t count) {
  if (c.sequence(index)) return c.invalid("E327", concat("input ", index, " must be a tensor"));
  RTX_ASSIGN(int64_t at, c.integer_input(index));
  if (at < 0) at += count;
  if (at < 0 || at >= count)
    return c.invalid("E333", concat("position ", at, " is outside the sequence"))
        .with_expected(concat("0 <= position < ", count));
  return static_cast<size_t>(at);
}

// The lengths of the parts of an axis of length `length`.
Result<std::vector<Dim>> part_sizes(Conversion& c, const Dim& length) {
  constexpr int64_t most_parts = 1024;
  std::vector<Dim> sizes;
  Dim size = 1;
  if (c.has(1)) {
    RTX_ASSIGN(std::vector<Dim> given, c.dims(1));
    for (const Dim& dim : given)
      if (dim.upper_bound(c.ranges()) < 1) return c.invalid("E332", concat("a part of size ", dim.str()));
    if (c.rank(1) == 1) return given;
    size = given[0];
  }
  Dim count = 0, rest = 0;
  if (auto exact = length.divided_by(size); exact && exact->is_constant()) {
    count = *exact;
  } else if (length.is_constant() && size.is_constant()) {
    count = length.constant() / size.constant();
    rest = length.constant() % size.constant();
  } else {
    return c.unsupported(concat("parts of ", size.str(), " of a length that is not constant, ", length.str()))
        .with_help("the number of tensors in the sequence must be known; fix the dim with --dim NAME=SIZE");
  }
  if (count.constant() > most_parts)
    return c.unsupported(concat("a sequence of ", count.str(), " tensors"))
        .with_expected(concat("at most ", most_parts));
  sizes.assign(static_cast<size_t>(count.constant()), size);
  if (!rest.is(0)) sizes.push_back(rest);
  return sizes;
}

Result<void> split_to_sequence(Conversion& c) {
  if (c.sequence(0) || c.sequence(1)) return c.invalid("E327", "the inputs must be tensors");
  RTX_ASSIGN(int axis, c.axis(c.integer("axis", 0), c.rank(0)));
  // keepdims has a meaning only where `split` is absent: parts of size 1.
  const bool squeezes = !c.has(1) && c.integer("keepdims", 1) == 0;
  RTX_ASSIGN(std::vector<Dim> sizes, part_sizes(c, c.type(0).shape[axis]));
  if (sizes.empty()) {
    c.set(0, std::vector<Imported*>{});
    return Ok{};
  }
  RTX_ASSIGN(std::vector<Imported*> parts,
             c.apply("Split", 13, {c.element(0), c.known(sizes)}, {integer_attribute("axis", axis)}, sizes.size()));
  for (Imported*& part : parts) {
    if (!squeezes) break;
    RTX_ASSIGN(std::vector<Imported*> squeezed, c.apply("Squeeze", 13, {part, c.known({axis})}, {}, 1));
    part = squeezed[0];
  }
  c.set(0, std::move(parts));
  return Ok{};
}

Result<void> sequence_construct(Conversion& c) {
  std::vector<Imported*> elements;
  for (size_t i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) return c.invalid("E221", concat("input ", i, " is missing"));
    if (c.sequence(i)) return c.unsupported("a sequence of sequences");
    if (c.type(i).dtype != c.type(0).dtype)
      return c.invalid("E335", "the tensors of a sequence must have one element type")
          .with_expected(std::string(to_string(c.type(0).dtype)))
          .with_got(std::string(to_string(c.type(i).dtype)));
    elements.push_back(c.element(i));
  }
  c.set(0, std::move(elements));
  return Ok{};
}

Result<void> sequence_empty(Conversion& c) {
  c.integer("dtype", 1);
  c.set(0, std::vector<Imported*>{});
  return Ok{};
}

Result<void> sequence_insert(Conversion& c) {
  RTX_ASSIGN(const auto* elements, need_sequence(c));
  if (c.sequence(1)) return c.unsupported("a sequence of sequences");
  std::vector<Imported*> longer = *elements;
  size_t at = longer.size();
  if (c.has(2)) {
    // The positions are those of [-n, n]: a negative one counts from the back of the old sequence.
    RTX_ASSIGN(int64_t given, c.integer_input(2));
    const int64_t count = static_cast<int64_t>(longer.size());
    if (given < -count || given > count)
      return c.invalid("E333", concat("position ", given, " is outside the sequence"))
          .with_expected(concat("-", count, " <= position <= ", count));
    at = static_cast<size_t>(given < 0 ? given + count : given);
  }
  longer.insert(longer.begin() + static_cast<std::ptrdiff_t>(at), c.element(1));
  c.set(0, std::move(longer));
  return Ok{};
}

Result<void> sequence_erase(Conversion& c) {
  RTX_ASSIGN(const auto* elements, need_sequence(c));
  std::vector<Imported*> shorter = *elements;
  const int64_t count = static_cast<int64_t>(shorter.size());
  if (count == 0) return c.invalid("E333", "the sequence is empty");
  size_t at = shorter.size() - 1;
  if (c.has(1)) {
    RTX_ASSIGN(at, position(c, 1, count));
  }
  shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(at));
  c.set(0, std::move(shorter));
  return Ok{};
}

Result<void> sequence_at(Conversion& c) {
  RTX_ASSIGN(const auto* elements, need_sequence(c));
  RTX_ASSIGN(size_t at, position(c, 1, static_cast<int64_t>(elements->size())));
  c.alias_value(0, (*elements)[at]);
  return Ok{};
}

Result<void> sequence_length(Conversion& c) {
  RTX_ASSIGN(const auto* elements, need_sequence(c));
  c.set(0, Contents{DType::i64, {}, {Element::of(static_cast<int64_t>(elements->size()))}});
  return Ok{};
}

Result<void> concat_from_sequence(Conversion& c) {
  RTX_ASSIGN(const auto* elements, need_sequence(c));
  if (!c.has_attribute("axis")) return c.invalid("E324", "attribute 'axis' is missing");
  int64_t axis = c.integer("axis", 0), stacks = c.integer("new_axis", 0);
  if (stacks != 0 && stacks != 1) return c.invalid("E321", concat("new_axis ", stacks));
  if (elements->empty()) return c.invalid("E327", "the sequence is empty");
  std::vector<Imported*> parts = *elements;
  for (Imported*& part : parts) {
    if (stacks == 0) break;
    RTX_ASSIGN(std::vector<Imported*> unsqueezed, c.apply("Unsqueeze", 13, {part, c.known({Dim(axis)})}, {}, 1));
    part = unsqueezed[0];
  }
  RTX_ASSIGN(std::vector<Imported*> joined, c.apply("Concat", 13, parts, {integer_attribute("axis", axis)}, 1));
  c.alias_value(0, joined[0]);
  return Ok{};
}

}  // namespace

constinit const Converter sequence_converters[] = {
    {"SplitToSequence", 11, split_to_sequence, never, "axis keepdims", 1, 2, "", 1, 0, true},
    {"SequenceConstruct", 11, sequence_construct, never, "", 1, any_number, "", 1, 0, true},
    {"SequenceEmpty", 11, sequence_empty, never, "dtype", 0, 0, "", 1, 0, true},
    {"SequenceInsert", 11, sequence_insert, never, "", 2, 3, "", 1, 0, true},
    {"SequenceErase", 11, sequence_erase, never, "", 1, 2, "", 1, 0, true},
    {"SequenceAt", 11, sequence_at, never, "", 2, 2, "", 1, 0, true},
    {"SequenceLength", 11, sequence_length, never, "", 1, 1, "", 1, 0, true},
    {"ConcatFromSequence", 11, concat_from_sequence, never, "axis new_axis", 1, 1, "", 1, 0, true},
};
std::span<const Converter> sequence_table() { return sequence_converters; }

}  // namespace rtx::onnx
