#include "codegen/plan_kernel.h"

#include "base/text.h"

namespace rtx::codegen {
namespace {

struct Planner {
  std::string_view kind;
  Result<KernelPlan> (*plan)(const Block&, const PlanContext&);
};

constexpr Planner planners[] = {
    {"pointwise", plan_pointwise}, {"row", plan_row},   {"reduce", plan_reduce}, {"contract", plan_contract},
    {"attention", plan_attention}, {"conv", plan_conv}, {"scan", plan_scan},     {"scatter", plan_scatter},
    {"sort", plan_sort},
};

}  // namespace

Result<KernelPlan> plan_kernel(std::string_view kind, const Block& body, const PlanContext& context) {
  for (const Planner& planner : planners) {
    if (planner.kind == kind) return planner.plan(body, context);
  }
  return make_error(ErrorKind::internal, "E993", concat("no planner for fusions of kind '", kind, "'"));
}

}  // namespace rtx::codegen
