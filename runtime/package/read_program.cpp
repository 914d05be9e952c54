// The programs of a manifest, decoded: indices in range, steps that write only where they may.
#include <algorithm>
#include <map>

#include "runtime/package/manifest_decoder.h"

namespace rtx::package {
namespace {

TensorSpec decode_tensor(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  TensorSpec tensor;
  tensor.name = d.string(fields["name"]);
  tensor.dtype = d.keyword(fields["dtype"], parse_dtype);
  tensor.shape = d.list(fields["shape"], [&](const YamlNode* n) { return d.formula(n); });
  fields.finish();
  return tensor;
}

Buffer decode_buffer(Decoder& d, const YamlNode& node, const Manifest& manifest, const Program& program) {
  Fields fields(d, node);
  Buffer buffer;
  buffer.kind = d.keyword(fields["kind"], parse_buffer_kind);
  size_t count = 0;
  switch (buffer.kind) {
    case BufferKind::input:
      count = program.inputs.size();
      break;
    case BufferKind::output:
      count = program.outputs.size();
      break;
    case BufferKind::weight:
      count = manifest.weights.size();
      break;
    case BufferKind::arena:
      count = program.arena.size();
      break;
    case BufferKind::counters:
      count = int32_max;  // check_counters() looks at them all together
      break;
  }
  buffer.index = static_cast<uint32_t>(d.integer(fields["index"], 0, static_cast<int64_t>(count) - 1));
  buffer.bytes = d.formula(fields["bytes"]);
  fields.finish();
  return buffer;
}

// A step gives its kernel the scratch that the kernel has, and nothing that it uses otherwise.
void check_scratch(Decoder& d, const YamlNode& node, const Step& step, const Kernel& kernel, const Program& program) {
  std::vector<BufferKind> kinds;
  if (kernel.launch && kernel.launch->has_workspace()) kinds.push_back(BufferKind::arena);
  if (kernel.launch && kernel.launch->has_counters()) kinds.push_back(BufferKind::counters);
  auto names = [](const std::vector<BufferKind>& list) {
    return concat("[", join(list, ", ", [](BufferKind kind) { return to_string(kind); }), "]");
  };
  std::vector<BufferKind> given;
  for (uint32_t index : step.scratch) given.push_back(program.buffers[index].kind);
  if (given != kinds)
    return d.fail(node, concat("'scratch' gives the kernel ", names(given), ", but it takes ", names(kinds)));
  for (uint32_t index : step.scratch) {
    for (const auto* others : {&step.operands, &step.results})
      if (std::find(others->begin(), others->end(), index) != others->end())
        d.fail(node, concat("buffer ", index, " is scratch, and an operand or result of the same step"));
  }
}

// A step reads only what is there: a buffer of the arena that a step before it wrote, in a piece that no step wrote
// since. It writes to pieces that differ from one another and from those that it reads.
void check_arena(Decoder& d, const YamlNode& node, const Program& program) {
  constexpr uint32_t nothing = UINT32_MAX;
  std::vector<uint32_t> holds(program.arena.size(), nothing);  // the buffer that was written last, of each piece
  std::vector<size_t> read_at(program.arena.size(), SIZE_MAX), written_at = read_at;
  for (size_t i = 0; i < program.steps.size() && !d.error; ++i) {
    const Step& step = program.steps[i];
    auto piece_of = [&](uint32_t buffer) { return program.buffers[buffer].index; };
    auto is_in_arena = [&](uint32_t buffer) { return program.buffers[buffer].kind == BufferKind::arena; };
    for (uint32_t buffer : step.operands) {
      if (!is_in_arena(buffer)) continue;
      if (holds[piece_of(buffer)] != buffer)
        d.fail(node, concat("step ", i, " reads buffer ", buffer, ", which does not hold what it was given"));
      read_at[piece_of(buffer)] = i;
    }
    for (const auto* list : {&step.results, &step.scratch}) {
      for (uint32_t buffer : *list) {
        if (!is_in_arena(buffer)) continue;
        if (read_at[piece_of(buffer)] == i || written_at[piece_of(buffer)] == i)
          d.fail(node, concat("step ", i, " writes buffer ", buffer, " over another one of the same step"));
        holds[piece_of(buffer)] = buffer;
        written_at[piece_of(buffer)] = i;
      }
    }
    for (uint32_t buffer : step.scratch)  // is not a value
      if (is_in_arena(buffer)) holds[piece_of(buffer)] = nothing;
  }
}

// Buffers of counters are numbered in their order, and each belongs to one step.
void check_counters(Decoder& d, const YamlNode& node, const Program& program) {
  std::vector<int> uses(program.buffers.size());
  for (const Step& step : program.steps)
    for (uint32_t buffer : step.scratch) ++uses[buffer];
  uint32_t next = 0;
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.kind != BufferKind::counters) continue;
    if (buffer.index != next++) d.fail(node, concat("buffer ", i, " has not the next number among the counters"));
    if (uses[i] != 1) d.fail(node, concat("buffer ", i, ", counters, is scratch of ", uses[i], " steps, not of one"));
  }
}

Step decode_step(Decoder& d, const YamlNode& node, const Manifest& manifest, const Program& program) {
  auto buffer = [&](const YamlNode* n) {
    return static_cast<uint32_t>(d.integer(n, 0, static_cast<int64_t>(program.buffers.size()) - 1));
  };
  Fields fields(d, node);
  Step step;
  step.kernel =
      static_cast<uint32_t>(d.integer(fields["kernel"], 0, static_cast<int64_t>(manifest.kernels.size()) - 1));
  step.operands = d.list(fields["operands"], [&](const YamlNode* n) {
    const uint32_t index = buffer(n);
    if (!d.error && program.buffers[index].kind == BufferKind::counters)
      d.fail(*n, concat("an operand is buffer ", index, ", counters"));
    return index;
  });
  step.results = d.list(fields["results"], [&](const YamlNode* n) {
    const uint32_t index = buffer(n);
    if (!d.error && program.buffers[index].kind != BufferKind::output &&
        program.buffers[index].kind != BufferKind::arena) {
      d.fail(*n, concat("a step writes to buffer ", index, ", an input or a weight"));
    }
    return index;
  });
  const YamlNode* const scratch = fields["scratch"];
  step.scratch = d.list(scratch, buffer);
  if (!d.error) check_scratch(d, *scratch, step, manifest.kernels[step.kernel], program);
  step.origins = d.list(fields["origins"], [&](const YamlNode* n) { return d.string(n); });
  if (const YamlNode* const decisions = fields.find("decisions"))
    step.decisions = decode_decision_list(d, decisions, manifest.decisions.size());
  fields.finish();
  return step;
}

Selector decode_selector(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  Selector selector;
  selector.input = static_cast<uint32_t>(d.integer(fields["input"], 0, int32_max));
  selector.value = d.boolean(fields["value"]);
  fields.finish();
  return selector;
}

Variant decode_variant(Decoder& d, const YamlNode& node, const Manifest& manifest) {
  Fields fields(d, node);
  Variant variant;
  variant.of = static_cast<uint32_t>(d.integer(fields["of"], 0, int32_max));
  int64_t next = 0;  // positions rise
  variant.dims = d.list(fields["dims"], [&](const YamlNode* n) {
    Fields entry(d, *n);
    Variant::FixedDim dim;
    dim.symbol =
        static_cast<uint32_t>(d.integer(entry["symbol"], next, static_cast<int64_t>(manifest.symbols.size()) - 1));
    const Symbol symbol = d.error ? Symbol{} : manifest.symbols[dim.symbol];
    dim.size = d.integer(entry["size"], symbol.min, symbol.max);
    entry.finish();
    next = int64_t{dim.symbol} + 1;
    return dim;
  });
  if (variant.dims.empty()) d.fail(node, "a variant has no dims");
  fields.finish();
  return variant;
}

// An input that is one bool, whatever the dims are.
bool can_select(const Selector& selector, const Program& program) {
  if (selector.input >= program.inputs.size()) return false;
  const TensorSpec& spec = program.inputs[selector.input];
  for (const Formula& size : spec.shape)
    if (!size.is_constant() || size.text() != "1") return false;
  return spec.dtype == DType::boolean;
}

}  // namespace

Program decode_program(Decoder& d, const YamlNode& node, const Manifest& manifest) {
  auto tensors = [&](const YamlNode* list) {
    auto specs = d.list(list, [&](const YamlNode* n) { return decode_tensor(d, *n); });
    d.check_unique(list, specs, [](const TensorSpec& spec) -> std::string_view { return spec.name; });
    return specs;
  };
  Fields fields(d, node);
  Program program;
  program.name = d.string(fields["name"]);
  const YamlNode* const when = fields.find("when");
  if (when) program.when = decode_selector(d, *when);
  if (const YamlNode* const variant = fields.find("variant")) program.variant = decode_variant(d, *variant, manifest);
  program.inputs = tensors(fields["inputs"]);
  if (when && !d.error && !can_select(*program.when, program)) d.fail(*when, "'when' names no input that is one bool");
  program.outputs = tensors(fields["outputs"]);
  program.arena = d.list(fields["arena"], [&](const YamlNode* n) { return d.formula(n); });
  program.buffers =
      d.list(fields["buffers"], [&](const YamlNode* n) { return decode_buffer(d, *n, manifest, program); });
  const YamlNode* const steps = fields["steps"];
  program.steps = d.list(steps, [&](const YamlNode* n) { return decode_step(d, *n, manifest, program); });
  if (!d.error) check_counters(d, *steps, program);
  if (!d.error) check_arena(d, *steps, program);
  fields.finish();
  return program;
}

void check_variants(Decoder& d, const YamlNode& node, const std::vector<Program>& programs) {
  auto same = [](const std::vector<TensorSpec>& a, const std::vector<TensorSpec>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TensorSpec& x, const TensorSpec& y) {
      return x.name == y.name && x.dtype == y.dtype && x.shape.size() == y.shape.size();
    });
  };
  std::map<std::vector<int64_t>, size_t> seen;
  for (size_t i = 0; i < programs.size() && !d.error; ++i) {
    if (!programs[i].variant) continue;
    const size_t of = programs[i].variant->of;
    if (of >= i || programs[of].variant) {
      d.fail(node, concat("program ", i, " is no variant of a general program before it"));
      continue;
    }
    const Program& general = programs[of];
    if (programs[i].when != general.when || !same(programs[i].inputs, general.inputs) ||
        !same(programs[i].outputs, general.outputs))
      d.fail(node,
             concat("program ", i, " differs from program ", of, ", of which it is a variant, in more than sizes"));
    std::vector<int64_t> key = {static_cast<int64_t>(of)};
    for (const Variant::FixedDim& dim : programs[i].variant->dims) key.insert(key.end(), {dim.symbol, dim.size});
    const auto [known, is_new] = seen.try_emplace(std::move(key), i);
    if (!is_new) d.fail(node, concat("programs ", known->second, " and ", i, " are one variant"));
  }
}

}  // namespace rtx::package
