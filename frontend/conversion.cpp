#include "frontend/conversion.h"

#include <algorithm>

#include "base/text.h"
#include "frontend/importer.h"

namespace rtx::onnx {

const SymbolRanges& Conversion::ranges() const { return importer_.ranges(); }

// ---- Inputs

const Type& Conversion::type(size_t index) const {
  if (!has(index)) {
    static const Type none;
    if (!deferred_error_) deferred_error_ = absent(index);
    return none;
  }
  const Imported& imported = *inputs_[index];
  return imported.value ? imported.value->type : imported.type;
}

Result<Value*> Conversion::input(size_t index) {
  if (!has(index)) return absent(index);
  return importer_.materialise(*inputs_[index], builder_);
}

Diagnostic Conversion::absent(size_t index) const { return invalid("E221", concat("input ", index, " is left out")); }

const Contents* Conversion::contents(size_t index) {
  return has(index) ? importer_.contents(*inputs_[index]) : nullptr;
}

Result<std::vector<Dim>> Conversion::dims(size_t index) {
  if (rank(index) > 1) return invalid("E327", concat("input ", index, " must have rank 1")).with_got(type(index).str());
  if (!is_integer(type(index).dtype))
    return invalid("E327", concat("input ", index, " must hold integers")).with_got(type(index).str());
  const Contents* known = contents(index);
  if (!known || !known->all_known()) return depends_on_data(index);
  std::vector<Dim> dims;
  for (const Element& element : known->elements) dims.push_back(element.dim);
  return dims;
}

Result<std::vector<Dim>> Conversion::shape_input(size_t index) {
  if (rank(index) != 1)
    return invalid("E327", concat("input ", index, ", a shape, must have rank 1")).with_got(type(index).str());
  return dims(index);
}

Result<std::vector<int64_t>> Conversion::integers(size_t index) {
  RTX_ASSIGN(std::vector<Dim> all, dims(index));
  std::vector<int64_t> result;
  for (const Dim& dim : all) {
    if (!dim.is_constant()) return unsupported(concat("input ", index, " is not a constant"));
    result.push_back(dim.constant());
  }
  return result;
}

Result<int64_t> Conversion::integer_input(size_t index) {
  RTX_ASSIGN(std::vector<int64_t> all, integers(index));
  if (all.size() != 1)
    return invalid("E327", concat("input ", index, " must have one element")).with_got(type(index).str());
  return all[0];
}

Result<Tensor> Conversion::constant_input(size_t index) {
  if (!has(index)) return absent(index);
  const Imported& imported = *inputs_[index];
  if (const Contents* known = contents(index); known && known->all_constant()) return tensor_of(*known);
  if (imported.stored) return load(*imported.stored);
  return depends_on_data(index);
}

// ---- Attributes

int64_t Conversion::integer(std::string_view name, int64_t fallback) {
  const int64_t* value = attribute<int64_t>(name);
  return value ? *value : fallback;
}

double Conversion::real(std::string_view name, double fallback) {
  const float* value = attribute<float>(name);
  return value ? static_cast<double>(*value) : fallback;
}

std::string Conversion::string(std::string_view name, std::string_view fallback) {
  const std::string* value = attribute<std::string>(name);
  return value ? *value : std::string(fallback);
}

std::optional<std::vector<int64_t>> Conversion::integer_list(std::string_view name) {
  const auto* value = attribute<std::vector<int64_t>>(name);
  return value ? std::optional(*value) : std::nullopt;
}

Result<std::vector<int64_t>> Conversion::spatial_list(std::string_view name, size_t count, int64_t fallback) {
  auto list = integer_list(name);
  if (!list) return std::vector<int64_t>(count, fallback);
  if (list->size() != count)
    return invalid("E324", concat("attribute '", name, "' has ", list->size(), " entries"))
        .with_expected(concat(count));
  for (int64_t entry : *list)
    if (entry < 0 || entry >= int64_t{1} << 31)
      return invalid("E321", concat("attribute '", name, "' has an entry of ", entry));
  return *list;
}

// ---- Outputs

void Conversion::set(size_t index, Value* value) {
  if (index < outputs_.size()) outputs_[index].value = value;
}

void Conversion::set(size_t index, Contents contents) {
  if (index < outputs_.size()) outputs_[index].contents = std::move(contents);
}

void Conversion::alias(size_t output, size_t input) {
  if (!has(input)) {
    if (!deferred_error_) deferred_error_ = absent(input);
  } else if (output < outputs_.size()) {
    outputs_[output].alias = inputs_[input];
  }
}

void Conversion::set_stored(size_t index, const WeightEntry& entry) {
  if (index < outputs_.size()) outputs_[index].stored = &entry;
}

void Conversion::set(size_t index, std::vector<Imported*> sequence) { outputs_[index].sequence = std::move(sequence); }

void Conversion::alias_value(size_t output, Imported* value) { outputs_[output].alias = value; }

const std::vector<Imported*>* Conversion::sequence(size_t index) const {
  return has(index) && inputs_[index]->sequence ? &*inputs_[index]->sequence : nullptr;
}

Result<std::vector<Imported*>> Conversion::apply(std::string op_type, int64_t opset, std::vector<Imported*> inputs,
                                                 std::vector<Attribute> attributes, size_t outputs) {
  Node node;
  node.name = node_.name;
  node.op_type = std::move(op_type);
  node.opset = opset;
  node.attributes = std::move(attributes);
  const std::string stem = node_.outputs.empty() ? node_.name : node_.outputs[0];
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(concat(stem, "_", i));
  return importer_.convert_in_place(std::move(node), std::move(inputs));
}

Imported* Conversion::known(const std::vector<Dim>& dims) { return importer_.known(dims); }

// ---- Emitting

Result<Value*> Conversion::emit(Op op, std::vector<Value*> operands, AttributeList attributes) {
  RTX_ASSIGN(Operation * operation, create(op, std::move(operands), std::move(attributes)));
  assert(operation->result_count() == 1);
  return operation->result();
}

Result<Operation*> Conversion::create(Op op, std::vector<Value*> operands, AttributeList attributes) {
  importer_.refresh(attributes);
  for (const char* name : {"shape", "sizes"}) {
    const AttributeValue* value = attributes.find(name);
    const auto* dims = value ? std::get_if<std::vector<Dim>>(value) : nullptr;
    for (size_t i = 0; dims && i < dims->size(); ++i)
      if ((*dims)[i].is_constant() && (*dims)[i].constant() < 0)
        return invalid("E301", concat("negative size ", (*dims)[i].str(), " in the shape ", to_string(*dims)));
  }
  RTX_ASSIGN(Operation * operation, builder_.create(op, std::move(operands), std::move(attributes)));
  for (const Type& type : operation->result_types()) RTX_TRY(importer_.check_size(type));
  return operation;
}

Result<Value*> Conversion::constant(Tensor tensor) {
  auto named = std::find_if(node_.outputs.begin(), node_.outputs.end(), [](auto& name) { return !name.empty(); });
  return importer_.constant(std::move(tensor), named == node_.outputs.end() ? node_.op_type : *named, builder_);
}

Result<Value*> Conversion::scalar(DType dtype, double value) { return constant(Tensor::scalar(dtype, value)); }

Result<Value*> Conversion::dim_scalar(const Dim& dim) {
  if (dim.is_constant()) {
    Tensor tensor(DType::i64, {});
    tensor.set_i64(0, dim.constant());
    return constant(std::move(tensor));
  }
  RTX_ASSIGN(Value * vector, emit(Op::dim_values, {}, {{"values", std::vector<Dim>{dim}}}));
  return reshape(vector, {});
}

Result<Value*> Conversion::cast(Value* value, DType dtype, bool saturate) {
  if (value->type.dtype == dtype) return value;
  return emit(Op::cast, {value}, {{"to", dtype}, {"saturate", saturate}});
}

Result<Value*> Conversion::reshape(Value* value, Shape shape) {
  if (value->type.shape == shape) return value;
  return emit(Op::reshape, {value}, {{"shape", std::move(shape)}});
}

Result<Value*> Conversion::broadcast(Value* value, Shape shape) {
  if (value->type.shape == shape) return value;
  return emit(Op::broadcast, {value}, {{"shape", std::move(shape)}});
}

Result<Value*> Conversion::transpose(Value* value, std::vector<int64_t> perm) {
  bool identity = static_cast<int>(perm.size()) == value->type.rank();
  for (size_t i = 0; identity && i < perm.size(); ++i) identity = perm[i] == static_cast<int64_t>(i);
  if (identity) return value;
  return emit(Op::transpose, {value}, {{"perm", std::move(perm)}});
}

Result<Value*> Conversion::slice(Value* value, int axis, const Dim& start, const Dim& size) {
  if (axis >= value->type.rank())
    return invalid("E327", concat("an input needs rank ", axis + 1, " or more")).with_got(value->type.str());
  if (start.is(0) && size == value->type.shape[axis]) return value;
  Shape starts(value->type.rank(), 0), sizes = value->type.shape;
  starts[axis] = start;
  sizes[axis] = size;
  std::vector<int64_t> steps(value->type.rank(), 1);
  return emit(Op::slice, {value},
              {{"starts", std::move(starts)}, {"sizes", std::move(sizes)}, {"steps", std::move(steps)}});
}

Result<Value*> Conversion::iota(DType dtype, int rank, int axis, const Dim& size) {
  Shape shape(rank, 1);
  shape[axis] = size;
  return emit(Op::iota, {}, {{"shape", std::move(shape)}, {"axis", static_cast<int64_t>(axis)}, {"dtype", dtype}});
}

Result<Value*> Conversion::reduce(Op op, Value* value, std::vector<int64_t> axes, bool keepdims) {
  return emit(op, {value}, {{"axes", std::move(axes)}, {"keepdims", keepdims}});
}

// ---- Checks

Result<int> Conversion::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    return invalid("E321", concat("axis ", axis, " is out of range"))
        .with_expected(concat("-", rank, " <= axis < ", rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<std::vector<int64_t>> Conversion::axes(std::vector<int64_t> list, int rank) const {
  for (int64_t& entry : list) {
    RTX_ASSIGN(entry, axis(entry, rank));
  }
  std::sort(list.begin(), list.end());
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) return invalid("E321", "an axis is repeated");
  return list;
}

Result<void> Conversion::need_rank(const Value* value, int rank) const {
  if (value->type.rank() == rank) return Ok{};
  return invalid("E327", concat("an input must have rank ", rank))
      .with_got(concat("'", escape_text(value->name), "' ", value->type.str()));
}

Result<void> Conversion::need_rank(size_t index, int wanted) const {
  if (rank(index) == wanted) return Ok{};
  return invalid("E327", concat("input ", index, " must have rank ", wanted)).with_got(type(index).str());
}

bool Conversion::unify(const Dim& a, const Dim& b) { return importer_.unify(a, b); }

Dim Conversion::fresh(const Dim& dim) const { return importer_.fresh(dim); }

void Conversion::limit(const Dim& dim, int64_t bound) { importer_.limit(dim, bound); }

void Conversion::warn(std::string_view id, std::string message) { importer_.warn(id, std::move(message)); }

// ---- Errors

Diagnostic Conversion::unsupported(std::string reason) const {
  return make_error(ErrorKind::unsupported, "E401", std::move(reason));
}

Diagnostic Conversion::invalid(std::string_view id, std::string message) const {
  return make_error(ErrorKind::invalid, id, std::move(message));
}

Diagnostic Conversion::depends_on_data(size_t index) const {
  Diagnostic diagnostic =
      make_error(ErrorKind::unsupported, "E402", concat("input ", index, " depends on the data, not only on shapes"));
  importer_.explain_data(*inputs_[index], diagnostic);
  return diagnostic;
}

}  // namespace rtx::onnx
