// The report of rtx-compile: one page of HTML without anything from elsewhere, for looking at what became of a model.
// Equal packages give equal bytes.
#pragma once

#include <span>
#include <string>

#include "cli/why.h"
#include "ir/module.h"
#include "runtime/package/package.h"

namespace rtx::cli {

// What a program was before any pass: for the picture of a layer.
struct ImportedOp {
  std::string name;  // of the operation
  std::string type;  // of its first result
  std::vector<std::string> origins;
  std::vector<size_t> sources;  // the operations that make its operands
};
// Of the module's first function. Constants and weights are left out: each is named in the operations that read it.
std::vector<ImportedOp> imported_operations(const Module& module);

struct ReportInput {
  std::string title;  // plain text
  std::span<const ImportedOp> before;
  const package::Package& package;
  std::span<const int64_t> symbols;  // the sizes that everything is given for
  package::Gpu gpu;
};
std::string report_html(const ReportInput& input);

// The pieces; each is HTML or SVG as it stands in the page.

// Text for HTML: control characters escaped as in messages, then <, >, & and quotes.
std::string html(std::string_view text);
// The class that colours what belongs to a kind of kernels.
std::string kind_class(std::string_view kind);

// A number with a unit of thousands: "209.5 T".
std::string scaled(double value);
// The id of a step's element; `program` is one of the manifest's.
std::string step_id(const package::Manifest& manifest, const package::Program& program, size_t step);

// The steps of one layer: the run of kinds of kernels that repeats over most steps, or all steps where nothing repeats.
struct LayerSteps {
  size_t first = 0, count = 0, repeats = 1;
};
LayerSteps find_layer(std::span<const StepCost> costs);
std::string layer_section(const ReportInput& input, const package::Program& program, std::span<const StepCost> costs);
std::string roofline_svg(std::span<const StepCost> costs, const package::Gpu& gpu);
std::string memory_svg(const package::Manifest& manifest, const package::Program& program,
                       std::span<const int64_t> symbols);
std::string kernel_table(const package::Manifest& manifest, std::span<const StepCost> costs);
std::string steps_section(const ReportInput& input, const package::Program& program, std::span<const StepCost> costs);

}  // namespace rtx::cli
