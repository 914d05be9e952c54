// The canonical text of a manifest: block style down to the lists, then one line for each buffer, step and the like.
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/package/manifest.h"
#include "runtime/package/yaml.h"

namespace rtx::package {
namespace {

// Constants stand bare, so that they can be told from expressions at a glance.
std::string formula(const Formula& value) {
  const std::string& text = value.text();
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos && (text == "0" || text[0] != '0');
  return is_number ? text : quote_yaml(text);
}

std::string formulas(const auto& values) { return concat("[", join(values, ", ", formula), "]"); }

std::string integers(const auto& values) {
  return concat("[", join(values, ", ", [](auto value) { return std::to_string(value); }), "]");
}

std::string strings(const std::vector<std::string>& values) {
  return concat("[", join(values, ", ", [](const std::string& value) { return quote_yaml(value); }), "]");
}

// "key:" and one line an item, or "key: []".
void write_lines(std::string& out, std::string_view indent, std::string_view key, const auto& items, auto to_line) {
  out += concat(indent, key, items.empty() ? ": []\n" : ":\n");
  for (const auto& item : items) out += concat(indent, "  - ", to_line(item), "\n");
}

std::string tensor_line(const TensorSpec& tensor) {
  return concat("{name: ", quote_yaml(tensor.name), ", dtype: ", to_string(tensor.dtype),
                ", shape: ", formulas(tensor.shape), "}");
}

std::string launch_line(const Launch& launch) {
  return concat("{function: ", quote_yaml(launch.function), ", grid: ", formulas(launch.grid),
                ", block: ", integers(launch.block), ", shared_bytes: ", formula(launch.shared_bytes),
                ", workspace_bytes: ", formula(launch.workspace_bytes), ", counters: ", formula(launch.counters),
                ", scalars: ", formulas(launch.scalars), ", code_offset: ", launch.code_offset,
                ", code_bytes: ", launch.code_bytes, "}");
}

std::string resources_line(const Resources& r) {
  return concat("{arch: ", r.arch, ", registers: ", r.registers, ", shared_bytes: ", r.shared_bytes,
                ", spill_bytes: ", r.spill_bytes, ", stack_bytes: ", r.stack_bytes,
                ", blocks_per_sm: ", r.blocks_per_sm, ", occupancy: ", r.occupancy, "}");
}

std::string matmul_line(const MatmulCall& m) {
  auto boolean = [](bool value) { return value ? "true" : "false"; };
  return concat("{batch: ", formula(m.batch), ", m: ", formula(m.m), ", n: ", formula(m.n), ", k: ", formula(m.k),
                ", transpose_lhs: ", boolean(m.transpose_lhs), ", transpose_rhs: ", boolean(m.transpose_rhs),
                ", lhs_batch_stride: ", formula(m.lhs_batch_stride),
                ", rhs_batch_stride: ", formula(m.rhs_batch_stride), ", dtype: ", to_string(m.dtype),
                m.bias ? concat(", bias: ", *m.bias) : "", m.residual ? concat(", residual: ", *m.residual) : "", "}");
}

std::string decision_line(const Decision& decision) {
  const auto work = [](const PlannedWork& w) {
    return concat("{unit: ", to_string(w.unit), ", percent: ", w.percent, ", flops: ", formula(w.flops),
                  ", bytes: ", formula(w.bytes), "}");
  };
  return concat(
      "{subject: ", quote_yaml(decision.subject), decision.operand ? concat(", operand: ", *decision.operand) : "",
      ", chosen: ", decision.chosen ? "true" : "false", ", reason: ", quote_yaml(decision.reason),
      decision.launches.empty() ? "" : concat(", launches: [", join(decision.launches, ", ", work), "]"), "}");
}

void write_kernel(std::string& out, const Kernel& kernel) {
  out += concat("  - name: ", quote_yaml(kernel.name), "\n");
  out += concat("    kind: ", quote_yaml(kernel.kind), "\n");
  out += concat("    cache_key: ", quote_yaml(kernel.cache_key), "\n");
  out += concat("    determinism: ", to_string(kernel.determinism), "\n");
  out += concat("    plan: ", quote_yaml(kernel.plan), "\n");
  out += concat("    flops: ", formula(kernel.flops), "\n");
  out += concat("    bytes: ", formula(kernel.bytes), "\n");
  out += concat("    unit: ", to_string(kernel.unit), "\n");
  out += concat("    percent: ", kernel.percent, "\n");
  if (!kernel.decisions.empty()) out += concat("    decisions: ", integers(kernel.decisions), "\n");
  if (kernel.launch) {
    out += concat("    launch: ", launch_line(*kernel.launch), "\n");
    write_lines(out, "    ", "resources", kernel.launch->resources, resources_line);
  }
  if (kernel.matmul) out += concat("    matmul: ", matmul_line(*kernel.matmul), "\n");
  out += concat("    body: ", literal_yaml(kernel.body, 4), "\n");
}

void write_program(std::string& out, const Program& program) {
  out += concat("  - name: ", quote_yaml(program.name), "\n");
  if (program.when)
    out +=
        concat("    when: {input: ", program.when->input, ", value: ", program.when->value ? "true" : "false", "}\n");
  if (program.variant)
    out += concat("    variant: {of: ", program.variant->of, ", dims: [",
                  join(program.variant->dims, ", ",
                       [](const auto& dim) { return concat("{symbol: ", dim.symbol, ", size: ", dim.size, "}"); }),
                  "]}\n");
  write_lines(out, "    ", "inputs", program.inputs, tensor_line);
  write_lines(out, "    ", "outputs", program.outputs, tensor_line);
  write_lines(out, "    ", "arena", program.arena, formula);
  write_lines(out, "    ", "buffers", program.buffers, [](const Buffer& b) {
    return concat("{kind: ", to_string(b.kind), ", index: ", b.index, ", bytes: ", formula(b.bytes), "}");
  });
  write_lines(out, "    ", "steps", program.steps, [](const Step& step) {
    return concat("{kernel: ", step.kernel, ", operands: ", integers(step.operands),
                  ", results: ", integers(step.results), ", scratch: ", integers(step.scratch),
                  ", origins: ", strings(step.origins),
                  step.decisions.empty() ? "" : concat(", decisions: ", integers(step.decisions)), "}");
  });
}

}  // namespace

std::string to_yaml(const Manifest& manifest) {
  std::string out = concat("rtx_package: ", format_version, "\n");
  out += concat("producer: ", quote_yaml(manifest.producer), "\n");
  out += concat("determinism: ", to_string(manifest.determinism), "\n");
  out += concat("archs: [", join(manifest.archs, ", "), "]\n");
  write_lines(out, "", "symbols", manifest.symbols, [](const Symbol& s) {
    return concat("{name: ", quote_yaml(s.name), ", min: ", s.min, ", max: ", s.max, ", opt: ", s.opt, "}");
  });
  write_lines(out, "", "weights", manifest.weights, [](const std::string& name) { return quote_yaml(name); });
  write_lines(out, "", "files", manifest.files, [](const FileEntry& f) {
    return concat("{name: ", quote_yaml(f.name), ", bytes: ", f.bytes, ", sha256: ", quote_yaml(f.sha256), "}");
  });
  if (!manifest.tuning_table.empty()) out += concat("tuning_table: ", quote_yaml(manifest.tuning_table), "\n");
  write_lines(out, "", "decisions", manifest.decisions, decision_line);
  out += manifest.kernels.empty() ? "kernels: []\n" : "kernels:\n";
  for (const Kernel& kernel : manifest.kernels) write_kernel(out, kernel);
  out += manifest.programs.empty() ? "programs: []\n" : "programs:\n";
  for (const Program& program : manifest.programs) write_program(out, program);
  return out + concat("checksum: ", quote_yaml(sha256_hex(out)), "\n");
}

}  // namespace rtx::package
