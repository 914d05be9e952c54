#include "cli/operator_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "frontend/converter.h"

namespace rtx::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string domain_name(std::string_view domain) { return domain.empty() ? "ai.onnx" : escape_text(domain); }

// Left-aligned columns; the last is not padded.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

// One form of an operator and the versions it serves.
struct Form {
  const onnx::Converter* row;
  std::optional<int64_t> until;  // the last version; nullopt: the newest
};

// The importer replaces an If by its live branch and a Loop by its iterations; a table of its own would have these
// rows.
constexpr onnx::Converter control_rows[] = {
    {.op_type = "If", .attributes = "then_branch else_branch", .max_outputs = onnx::any_number},
    {.op_type = "Loop",
     .attributes = "body",
     .min_inputs = 2,
     .max_inputs = onnx::any_number,
     .max_outputs = onnx::any_number},
};

std::vector<Form> forms() {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<const onnx::Converter*>> by_operator;
  for (std::span<const onnx::Converter> table : onnx::all_converters())
    for (const onnx::Converter& row : table) by_operator[{row.domain, row.op_type}].push_back(&row);
  for (const onnx::Converter& row : control_rows) by_operator[{row.domain, row.op_type}].push_back(&row);
  std::vector<Form> all;
  for (auto& [key, rows] : by_operator) {
    std::sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->since < b->since; });
    for (size_t i = 0; i < rows.size(); ++i)
      all.push_back({rows[i], i + 1 < rows.size() ? std::optional(rows[i + 1]->since - 1) : std::nullopt});
  }
  return all;
}

std::string dumped(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

std::string support_table(const onnx::OperatorUses& uses, bool imported) {
  std::vector<std::vector<std::string>> rows = {{"domain", "operator", "opset", "nodes", "handling"}};
  int64_t nodes = 0, refused = 0;
  size_t refused_operators = 0;
  for (const onnx::OperatorUse* use : uses.sorted()) {
    rows.push_back({domain_name(use->domain), escape_text(use->op_type), concat(use->opset), concat(use->count()),
                    use->handling()});
    nodes += use->count();
    refused += use->nodes[static_cast<int>(onnx::NodeFate::refused)];
    refused_operators += use->supported() ? 0 : 1;
  }
  const size_t operators = rows.size() - 1;
  return concat(aligned(rows), "\n",
                imported      ? concat("supported: ", nodes, " nodes of ", operators, " operators\n")
                : refused > 0 ? concat("not supported: ", refused, " of ", nodes, " nodes, ", refused_operators, " of ",
                                       operators, " operators\n")
                              : std::string("not supported: see the errors\n"));
}

std::string support_json(const onnx::Model& model, const onnx::OperatorUses& uses,
                         const Result<onnx::ImportResult>& imported) {
  Json operators = Json::array(), diagnostics = Json::array();
  for (const onnx::OperatorUse* use : uses.sorted()) {
    Json fates = Json::object();
    for (int fate = 0; fate < onnx::node_fates; ++fate)
      if (use->nodes[fate] > 0) fates[std::string(to_string(static_cast<onnx::NodeFate>(fate)))] = use->nodes[fate];
    operators.push_back({{"domain", use->domain.empty() ? "ai.onnx" : use->domain},
                         {"operator", use->op_type},
                         {"opset", use->opset},
                         {"nodes", use->count()},
                         {"fates", std::move(fates)},
                         {"ir_operations", use->ir_ops},
                         {"reasons", use->reasons}});
  }
  const std::vector<Diagnostic>& all = imported ? imported->warnings : imported.error().diagnostics;
  for (const Diagnostic& diagnostic : all) diagnostics.push_back(Json::parse(to_json(diagnostic)));
  return dumped({{"model", model.path},
                 {"producer", model.producer},
                 {"supported", imported.ok()},
                 {"operators", std::move(operators)},
                 {"diagnostics", std::move(diagnostics)}});
}

std::string converters_table() {
  std::vector<std::vector<std::string>> rows = {{"domain", "operator", "opsets", "attributes"}};
  for (const Form& form : forms()) {
    const std::string opsets = !form.until                      ? concat(form.row->since, "-")
                               : *form.until == form.row->since ? concat(form.row->since)
                                                                : concat(form.row->since, "-", *form.until);
    rows.push_back(
        {domain_name(form.row->domain), std::string(form.row->op_type), opsets, std::string(form.row->attributes)});
  }
  return aligned(rows);
}

std::string converters_json() {
  Json list = Json::array();
  for (const Form& form : forms()) {
    const onnx::Converter& row = *form.row;
    Json attributes = Json::array();
    for (std::string_view rest = row.attributes; !rest.empty();) {
      const size_t end = rest.find(' ');
      attributes.push_back(rest.substr(0, end));
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    list.push_back({{"domain", domain_name(row.domain)},
                    {"operator", row.op_type},
                    {"since", row.since},
                    {"until", form.until ? Json(*form.until) : Json()},
                    {"min_inputs", row.min_inputs},
                    {"max_inputs", row.max_inputs == onnx::any_number ? Json() : Json(row.max_inputs)},
                    {"max_outputs", row.max_outputs == onnx::any_number ? Json() : Json(row.max_outputs)},
                    {"attributes", std::move(attributes)}});
  }
  return dumped(list);
}

}  // namespace rtx::cli
