#include "runtime/session.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/arena.h"

namespace rtx::runtime {

using package::BufferKind;

// Everything about a run that follows from the values of the symbols.
struct Session::Binding {
  std::vector<int64_t> symbols;
  std::vector<int64_t> input_bytes, output_bytes;
  std::vector<std::vector<int64_t>> output_shapes;
  Arena arena;
  // By kernel of the package; null where the program does not use it.
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
};

Session::Session(Model& model, const package::Program& program, const SessionOptions& options)
    : model_(model), program_(program), options_(options) {
  inputs_.resize(program.inputs.size());
  outputs_.resize(program.outputs.size());
}

Session::~Session() {
  // Memory must not be freed under work that still uses it.
  if (in_flight_) (void)stream_->synchronize().ok();
}

Result<std::unique_ptr<Session>> Session::create(Model& model, const std::string& program,
                                                 const SessionOptions& options) {
  RTX_ASSIGN(const package::Program* found, find_program(model.manifest(), program));
  std::unique_ptr<Session> session(new Session(model, *found, options));
  RTX_ASSIGN(session->stream_, model.device().create_stream());
  return session;
}

Result<std::vector<HostTensor>> Session::run(std::span<const HostTensor> inputs) {
  RTX_TRY(bind(inputs));
  Result<void> enqueued = upload(inputs);
  if (enqueued) enqueued = execute();
  if (!enqueued) {
    // The caller may free the inputs as soon as we return.
    (void)synchronize().ok();
    return std::move(enqueued).error();
  }
  return download();
}

Result<void> Session::bind(std::span<const HostTensor> inputs, const SymbolValues& given) {
  bound_ = false;
  std::vector<TensorType> types;
  for (const HostTensor& input : inputs) types.push_back({input.dtype, input.shape});
  RTX_ASSIGN(std::vector<int64_t> symbols, bind_symbols(model_.manifest(), program_, types, given));
  if (!is_selected(program_, inputs))
    return make_error(ErrorKind::invalid, "E380", concat("program '", program_.name, "' is not for these inputs"))
        .with_where(concat("input '", escape_text(program_.inputs[program_.when->input].name), "'"))
        .with_expected(program_.when->value ? "true" : "false")
        .with_got(program_.when->value ? "false" : "true")
        .with_help("choose_program() finds the program; rtx-run does so unless --program is given");

  const auto known = std::find_if(bindings_.begin(), bindings_.end(),
                                  [&](const std::unique_ptr<Binding>& b) { return b->symbols == symbols; });
  if (known != bindings_.end()) {
    std::rotate(bindings_.begin(), known, known + 1);
  } else {
    RTX_ASSIGN(std::unique_ptr<Binding> binding, prepare(std::move(symbols)));
    if (bindings_.size() >= std::max<size_t>(options_.max_bindings, 1)) {
      RTX_TRY(synchronize());
      bindings_.pop_back();
    }
    bindings_.insert(bindings_.begin(), std::move(binding));
  }
  RTX_TRY(reserve(*bindings_.front()));
  resolve_addresses(*bindings_.front());
  bound_ = true;
  return Ok{};
}

Result<std::unique_ptr<Session::Binding>> Session::prepare(std::vector<int64_t> symbols) const {
  auto binding = std::make_unique<Binding>();
  for (const package::TensorSpec& spec : program_.inputs) {
    RTX_ASSIGN(const std::vector<int64_t> shape, evaluate_shape(spec, symbols));
    RTX_ASSIGN(const int64_t bytes, tensor_bytes(spec.dtype, shape));
    binding->input_bytes.push_back(bytes);
  }
  for (const package::TensorSpec& spec : program_.outputs) {
    RTX_ASSIGN(std::vector<int64_t> shape, evaluate_shape(spec, symbols));
    RTX_ASSIGN(const int64_t bytes, tensor_bytes(spec.dtype, shape));
    binding->output_bytes.push_back(bytes);
    binding->output_shapes.push_back(std::move(shape));
  }
  RTX_ASSIGN(binding->arena, lay_out_arena(program_, symbols));
  binding->symbols = std::move(symbols);
  RTX_TRY(check_buffers(*binding));

  binding->kernels.resize(model_.manifest().kernels.size());
  for (size_t step = 0; step < program_.steps.size(); ++step) {
    std::unique_ptr<PreparedKernel>& kernel = binding->kernels[program_.steps[step].kernel];
    if (!kernel) {
      auto prepared = model_.module().prepare(program_.steps[step].kernel, binding->symbols);
      if (!prepared) return std::move(prepared).error().within(step_place(step));
      kernel = std::move(prepared).value();
    }
    Result<void> fits = check_step(program_.steps[step], *kernel, binding->symbols);
    if (fits) fits = check_scratch(program_.steps[step], binding->symbols);
    if (!fits) return std::move(fits).error().within(step_place(step));
  }
  return binding;
}

// A buffer that is larger than the memory behind it would let a kernel write over its neighbours.
Result<void> Session::check_buffers(const Binding& binding) const {
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const package::Buffer& buffer = program_.buffers[i];
    RTX_ASSIGN(const int64_t bytes, buffer.bytes.evaluate(binding.symbols));
    int64_t available = 0;
    switch (buffer.kind) {
      case BufferKind::input:
        available = binding.input_bytes[buffer.index];
        break;
      case BufferKind::output:
        available = binding.output_bytes[buffer.index];
        break;
      case BufferKind::weight:
        available = model_.weights().bytes[buffer.index];
        break;
      case BufferKind::arena:
        available = binding.arena.piece_bytes[buffer.index];
        break;
      case BufferKind::counters:
        available = bytes;  // lay_out_arena() has made room for these
        break;
    }
    if (bytes < 0 || bytes > available)
      return make_error(ErrorKind::integrity, "E606",
                        concat("buffer ", i, " of program '", program_.name, "' is larger than the memory behind it"))
          .with_expected(concat("at most ", available, " bytes"))
          .with_got(concat(buffer.bytes.text(), " = ", bytes));
  }
  return Ok{};
}

// Nor may a kernel work on more than its buffers.
Result<void> Session::check_step(const package::Step& step, const PreparedKernel& kernel,
                                 std::span<const int64_t> symbols) const {
  const std::span<const int64_t> needed = kernel.buffer_bytes();
  if (needed.empty()) return Ok{};
  std::vector<uint32_t> buffers = step.operands;
  buffers.insert(buffers.end(), step.results.begin(), step.results.end());
  if (buffers.size() != needed.size())
    return make_error(ErrorKind::integrity, "E606", "the step gives its kernel a wrong number of buffers")
        .with_expected(concat(needed.size(), " buffers"))
        .with_got(concat(buffers.size()));
  for (size_t i = 0; i < buffers.size(); ++i) {
    RTX_TRY(check_size(buffers[i], needed[i], symbols));
  }
  return Ok{};
}

// The reader has checked that the step has the scratch that its kernel takes.
Result<void> Session::check_scratch(const package::Step& step, std::span<const int64_t> symbols) const {
  const auto& launch = model_.manifest().kernels[step.kernel].launch;
  if (!launch) return Ok{};
  size_t next = 0;
  if (launch->has_workspace()) {
    RTX_ASSIGN(const int64_t bytes, launch->workspace_bytes.evaluate(symbols));
    RTX_TRY(check_size(step.scratch[next++], bytes, symbols));
  }
  if (launch->has_counters()) {
    RTX_ASSIGN(const int64_t count, launch->counters.evaluate(symbols));
    int64_t bytes = 0;
    if (__builtin_mul_overflow(count, static_cast<int64_t>(sizeof(uint32_t)), &bytes))
      return make_error(ErrorKind::limit, "E506", concat("the kernel takes ", count, " counters"));
    RTX_TRY(check_size(step.scratch[next], bytes, symbols));
  }
  return Ok{};
}

Result<void> Session::check_size(uint32_t index, int64_t needed, std::span<const int64_t> symbols) const {
  const package::Buffer& buffer = program_.buffers[index];
  RTX_ASSIGN(const int64_t bytes, buffer.bytes.evaluate(symbols));
  if (needed >= 0 && bytes >= needed) return Ok{};
  return make_error(ErrorKind::integrity, "E606", concat("buffer ", index, " is smaller than what the kernel uses"))
      .with_expected(concat("at least ", needed, " bytes"))
      .with_got(concat(buffer.bytes.text(), " = ", bytes));
}

Result<void> Session::grow(std::unique_ptr<TensorStorage>& storage, int64_t bytes) {
  if (storage && storage->bytes() >= bytes) return Ok{};
  RTX_TRY(synchronize());
  // The old memory goes first: both at once may not fit.
  storage.reset();
  RTX_ASSIGN(storage, model_.device().allocate(bytes));
  return Ok{};
}

Result<void> Session::reserve(const Binding& binding) {
  for (size_t i = 0; i < inputs_.size(); ++i) RTX_TRY(grow(inputs_[i], binding.input_bytes[i]));
  for (size_t i = 0; i < outputs_.size(); ++i) RTX_TRY(grow(outputs_[i], binding.output_bytes[i]));
  Result<void> grown = grow(arena_, binding.arena.bytes);
  if (grown) grown = reserve_counters(binding.arena.counter_bytes);
  if (!grown) return std::move(grown).error().within(concat("the arena of program '", program_.name, "'"));
  return Ok{};
}

Result<void> Session::reserve_counters(int64_t bytes) {
  if (bytes == 0 || (counters_ && counters_->bytes() >= bytes)) return Ok{};
  RTX_TRY(grow(counters_, bytes));
  in_flight_ = true;
  Result<void> zeroed = model_.device().fill(*stream_, counters_->address(), bytes, std::byte{0});
  if (!zeroed) counters_.reset();  // no later bind() takes them for zero
  return zeroed;
}

Result<void> Session::fill_with_poison(const Binding& binding) {
  constexpr std::byte poison{0xff};
  RTX_TRY(model_.device().fill(*stream_, arena_->address(), binding.arena.bytes, poison));
  for (size_t i = 0; i < outputs_.size(); ++i)
    RTX_TRY(model_.device().fill(*stream_, outputs_[i]->address(), binding.output_bytes[i], poison));
  return Ok{};
}

void Session::resolve_addresses(const Binding& binding) {
  std::vector<DevicePointer> buffers;
  for (const package::Buffer& buffer : program_.buffers) {
    switch (buffer.kind) {
      case BufferKind::input:
        buffers.push_back(inputs_[buffer.index]->address());
        break;
      case BufferKind::output:
        buffers.push_back(outputs_[buffer.index]->address());
        break;
      case BufferKind::weight:
        buffers.push_back(model_.weights().addresses[buffer.index]);
        break;
      case BufferKind::arena:
        buffers.push_back(arena_->address() + static_cast<uint64_t>(binding.arena.offsets[buffer.index]));
        break;
      case BufferKind::counters:
        buffers.push_back(
            counters_ ? counters_->address() + static_cast<uint64_t>(binding.arena.counter_offsets[buffer.index]) : 0);
        break;
    }
  }
  addresses_.clear();
  first_address_.clear();
  for (const package::Step& step : program_.steps) {
    first_address_.push_back(addresses_.size());
    for (uint32_t operand : step.operands) addresses_.push_back(buffers[operand]);
    for (uint32_t result : step.results) addresses_.push_back(buffers[result]);
    if (!binding.kernels[step.kernel]->takes_scratch()) continue;
    for (uint32_t scratch : step.scratch) addresses_.push_back(buffers[scratch]);
  }
  first_address_.push_back(addresses_.size());
}

Result<void> Session::upload(std::span<const HostTensor> inputs) {
  if (!bound_) return make_error(ErrorKind::internal, "E799", "upload() without bind()");
  const Binding& binding = *bindings_.front();
  if (inputs.size() != inputs_.size())
    return make_error(ErrorKind::invalid, "E371", "the inputs are not those of bind()");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (static_cast<int64_t>(inputs[i].bytes.size()) != binding.input_bytes[i])
      return make_error(ErrorKind::invalid, "E379", "the data does not fit the shape")
          .with_where(concat("input '", escape_text(program_.inputs[i].name), "'"))
          .with_expected(concat(binding.input_bytes[i], " bytes"))
          .with_got(concat(inputs[i].bytes.size(), " bytes"));
  in_flight_ = true;
  for (size_t i = 0; i < inputs.size(); ++i)
    RTX_TRY(model_.device().copy_to_device(*stream_, inputs_[i]->address(), inputs[i].bytes));
  return Ok{};
}

Result<void> Session::execute() {
  if (!bound_) return make_error(ErrorKind::internal, "E799", "execute() without bind()");
  const Binding& binding = *bindings_.front();
  in_flight_ = true;
  if (options_.poison) RTX_TRY(fill_with_poison(binding));
  const std::span<const DevicePointer> all(addresses_);
  for (size_t step = 0; step < program_.steps.size(); ++step) {
    PreparedKernel& kernel = *binding.kernels[program_.steps[step].kernel];
    const size_t first = first_address_[step], end = first_address_[step + 1];
    Result<void> done = kernel.enqueue(*stream_, all.subspan(first, end - first));
    if (done && options_.synchronize_steps) done = stream_->synchronize();
    if (!done) return std::move(done).error().within(step_place(step));
  }
  return Ok{};
}

Result<std::vector<HostTensor>> Session::download() {
  if (!bound_) return make_error(ErrorKind::internal, "E799", "download() without bind()");
  const Binding& binding = *bindings_.front();
  std::vector<HostTensor> outputs(program_.outputs.size());
  in_flight_ = true;
  Result<void> copied = Ok{};
  for (size_t i = 0; i < outputs.size() && copied; ++i) {
    outputs[i].dtype = program_.outputs[i].dtype;
    outputs[i].shape = binding.output_shapes[i];
    outputs[i].bytes.resize(static_cast<size_t>(binding.output_bytes[i]));
    copied = model_.device().copy_to_host(*stream_, outputs[i].bytes, outputs_[i]->address());
  }
  // Also after an error: copies into `outputs` may be under way.
  Result<void> waited = synchronize();
  if (copied) copied = std::move(waited);
  if (!copied) return std::move(copied).error().within(concat("program '", program_.name, "'"));
  return outputs;
}

Result<void> Session::synchronize() {
  if (!in_flight_) return Ok{};
  in_flight_ = false;
  return stream_->synchronize();
}

const std::vector<int64_t>& Session::symbols() const {
  static const std::vector<int64_t> none;
  return bindings_.empty() ? none : bindings_.front()->symbols;
}

int64_t Session::device_bytes() const {
  int64_t bytes = (arena_ ? arena_->bytes() : 0) + (counters_ ? counters_->bytes() : 0);
  for (const auto* storages : {&inputs_, &outputs_})
    for (const auto& storage : *storages) bytes += storage ? storage->bytes() : 0;
  return bytes;
}

std::string Session::step_place(size_t index) const {
  const package::Step& step = program_.steps[index];
  std::string place = concat("program '", program_.name, "' step ", index, " (kernel '",
                             model_.manifest().kernels[step.kernel].name, "'");
  if (!step.origins.empty()) {
    // A kernel shared by a whole layer may have hundreds.
    constexpr size_t shown = 4;
    const std::vector<std::string> first(
        step.origins.begin(), step.origins.begin() + static_cast<ptrdiff_t>(std::min(shown, step.origins.size())));
    place += concat(", from ", join(first, ", ", [](const std::string& s) { return concat("'", escape_text(s), "'"); }),
                    step.origins.size() > shown ? ", ..." : "");
  }
  return place + ")";
}

}  // namespace rtx::runtime
