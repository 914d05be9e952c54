#include <array>

#include <nlohmann/json.hpp>

#include "cli/inspect.h"
#include "ir/expand.h"
#include "ir/text.h"
#include "runtime/arena.h"
#include "runtime/memory_report.h"

namespace rtx::cli {

namespace {

using package::Decision;
using package::Formula;
using package::Gpu;
using package::Kernel;
using package::Launch;
using package::Manifest;
using package::MatmulCall;
using package::Package;
using package::Program;
using package::Resources;
using package::Step;
using package::Symbol;
using package::TensorSpec;
using Json = nlohmann::ordered_json;

Json value_json(const Formula& formula, std::span<const int64_t> symbols) {
  const Result<int64_t> value = formula.evaluate(symbols);
  return {{"formula", formula.text()}, {"value", value ? Json(*value) : Json(nullptr)}};
}

Json specs_json(const std::vector<TensorSpec>& specs) {
  Json list = Json::array();
  for (const TensorSpec& spec : specs) {
    Json shape = Json::array();
    for (const Formula& size : spec.shape) {
      // A number where it is one.
      if (size.is_constant())
        shape.push_back(size.evaluate({}).value());
      else
        shape.push_back(size.text());
    }
    list.push_back({{"name", spec.name}, {"dtype", to_string(spec.dtype)}, {"shape", std::move(shape)}});
  }
  return list;
}

Json memory_json(const Program& program, std::span<const int64_t> symbols) {
  const auto report = runtime::report_memory(program, symbols);
  if (!report) return nullptr;
  return {{"input_bytes", report->input_bytes},
          {"output_bytes", report->output_bytes},
          {"arena_bytes", report->arena_bytes},
          {"arena_lower_bound", report->lower_bound},
          {"counter_bytes", report->counter_bytes}};
}

Json estimate_json(std::span<const package::PlannedWork> launches, std::span<const int64_t> symbols, const Gpu& gpu) {
  const Result<double> ns = package::estimate_ns(launches, symbols, gpu);
  return ns ? Json(static_cast<int64_t>(*ns)) : Json(nullptr);
}

Json decisions_json(const Manifest& manifest, const std::vector<uint32_t>& positions, std::span<const int64_t> symbols,
                    const Gpu& gpu) {
  Json list = Json::array();
  for (uint32_t position : positions) {
    const Decision& decision = manifest.decisions[position];
    list.push_back(
        {{"subject", decision.subject},
         {"operand", decision.operand ? Json(*decision.operand) : Json(nullptr)},
         {"chosen", decision.chosen},
         {"reason", decision.reason},
         {"estimated_ns", decision.launches.empty() ? Json(nullptr) : estimate_json(decision.launches, symbols, gpu)}});
  }
  return list;
}

Json arena_json(const Program& program, std::span<const int64_t> symbols) {
  const auto arena = runtime::lay_out_arena(program, symbols);
  const std::vector<package::Life> lives = package::arena_lives(program);
  Json pieces = Json::array();
  for (size_t i = 0; i < program.arena.size(); ++i) {
    pieces.push_back({{"bytes", value_json(program.arena[i], symbols)},
                      {"offset", arena ? Json(arena->offsets[i]) : Json(nullptr)},
                      {"first_step", lives[i].first},
                      {"last_step", lives[i].last}});
  }
  return pieces;
}

Json program_json(const Manifest& manifest, const Program& program, std::span<const int64_t> symbols, const Gpu& gpu) {
  std::vector<int64_t> low, high;
  for (const Symbol& symbol : manifest.symbols) {
    low.push_back(symbol.min);
    high.push_back(symbol.max);
  }
  Json steps = Json::array();
  for (const Step& step : program.steps) {
    const auto buffers = [&](const std::vector<uint32_t>& list) {
      Json texts = Json::array();
      for (uint32_t buffer : list) texts.push_back(buffer_text(manifest, program, buffer));
      return texts;
    };
    steps.push_back({{"kernel", manifest.kernels[step.kernel].name},
                     {"operands", buffers(step.operands)},
                     {"results", buffers(step.results)},
                     {"scratch", buffers(step.scratch)},
                     {"origins", step.origins},
                     {"decisions", decisions_json(manifest, step.decisions, symbols, gpu)}});
  }
  Json when = nullptr;
  if (program.when) when = {{"input", program.inputs[program.when->input].name}, {"value", program.when->value}};
  return {{"name", program.name},
          {"when", std::move(when)},
          {"variant", program.variant ? Json(variant_text(manifest, *program.variant)) : Json(nullptr)},
          {"inputs", specs_json(program.inputs)},
          {"outputs", specs_json(program.outputs)},
          {"memory",
           {{"min", memory_json(program, low)},
            {"chosen", memory_json(program, symbols)},
            {"max", memory_json(program, high)}}},
          {"arena", arena_json(program, symbols)},
          {"steps", std::move(steps)}};
}

Json launch_json(const Launch& launch, std::span<const int64_t> symbols) {
  Json grid = Json::array(), resources = Json::array();
  for (const Formula& size : launch.grid) grid.push_back(value_json(size, symbols));
  for (const Resources& r : launch.resources)
    resources.push_back({{"arch", r.arch},
                         {"registers", r.registers},
                         {"shared_bytes", r.shared_bytes},
                         {"spill_bytes", r.spill_bytes},
                         {"stack_bytes", r.stack_bytes},
                         {"blocks_per_sm", r.blocks_per_sm},
                         {"occupancy", r.occupancy}});
  return {{"function", launch.function},
          {"grid", std::move(grid)},
          {"block", launch.block},
          {"shared_bytes", value_json(launch.shared_bytes, symbols)},
          {"workspace_bytes", value_json(launch.workspace_bytes, symbols)},
          {"counters", value_json(launch.counters, symbols)},
          {"code_bytes", launch.code_bytes},
          {"resources", std::move(resources)}};
}

Json matmul_json(const MatmulCall& call, std::span<const int64_t> symbols) {
  return {{"dtype", to_string(call.dtype)},
          {"batch", value_json(call.batch, symbols)},
          {"m", value_json(call.m, symbols)},
          {"n", value_json(call.n, symbols)},
          {"k", value_json(call.k, symbols)},
          {"transpose_lhs", call.transpose_lhs},
          {"transpose_rhs", call.transpose_rhs},
          {"bias", call.bias ? Json(*call.bias) : Json(nullptr)},
          {"residual", call.residual ? Json(*call.residual) : Json(nullptr)}};
}

// Null where the body does not parse.
Json core_operations_json(const std::string& body) {
  const Result<std::unique_ptr<Block>> block = parse_body(body, "body");
  return block ? Json(count_core_operations(**block)) : Json(nullptr);
}

Json kernels_json(const Manifest& manifest, std::span<const int64_t> symbols, const Gpu& gpu) {
  const std::vector<int64_t> launches = count_launches(manifest);
  Json list = Json::array();
  for (size_t i = 0; i < manifest.kernels.size(); ++i) {
    const Kernel& kernel = manifest.kernels[i];
    list.push_back({{"name", kernel.name},
                    {"kind", kernel.kind},
                    {"cache_key", kernel.cache_key},
                    {"determinism", to_string(kernel.determinism)},
                    {"launches", launches[i]},
                    {"flops", value_json(kernel.flops, symbols)},
                    {"bytes", value_json(kernel.bytes, symbols)},
                    {"plan", kernel.plan},
                    {"estimated_ns", estimate_json(std::array{kernel.work()}, symbols, gpu)},
                    {"decisions", decisions_json(manifest, kernel.decisions, symbols, gpu)},
                    {"launch", kernel.launch ? launch_json(*kernel.launch, symbols) : Json(nullptr)},
                    {"matmul", kernel.matmul ? matmul_json(*kernel.matmul, symbols) : Json(nullptr)},
                    {"core_operations", core_operations_json(kernel.body)},
                    {"body", kernel.body}});
  }
  return list;
}

}  // namespace

std::string inspect_json(const Package& package, std::span<const int64_t> symbols, const Gpu& gpu) {
  const Manifest& m = package.manifest;
  Json dims = Json::array(), chosen = Json::object(), weights = Json::array(), programs = Json::array();
  for (size_t i = 0; i < m.symbols.size(); ++i) {
    const Symbol& symbol = m.symbols[i];
    dims.push_back({{"name", symbol.name}, {"min", symbol.min}, {"max", symbol.max}, {"opt", symbol.opt}});
    chosen[symbol.name] = symbols[i];
  }
  for (const std::string& name : m.weights) {
    const auto entry = package.weights_index.find(name);
    if (entry == package.weights_index.end()) continue;
    weights.push_back({{"name", name},
                       {"dtype", to_string(entry->second.dtype)},
                       {"shape", entry->second.shape},
                       {"bytes", entry->second.bytes}});
  }
  for (const Program& program : m.programs) programs.push_back(program_json(m, program, symbols, gpu));
  const Json root = {{"package", package.path},
                     {"producer", m.producer},
                     {"manifest_sha256", package.manifest_sha256},
                     {"determinism", to_string(m.determinism)},
                     {"archs", m.archs},
                     {"code_bytes", package.fatbin.size()},
                     {"dims", std::move(dims)},
                     {"chosen_dims", std::move(chosen)},
                     {"estimates_for", gpu.arch},
                     {"tuning_table", m.tuning_table.empty() ? Json(nullptr) : Json(m.tuning_table)},
                     {"weights", std::move(weights)},
                     {"programs", std::move(programs)},
                     {"kernels", kernels_json(m, symbols, gpu)}};
  // Names come from untrusted files: bytes that are not UTF-8 are replaced instead of throwing.
  return root.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rtx::cli
