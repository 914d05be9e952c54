#include "runtime/package/manifest_decoder.h"

namespace rtx::package {
namespace {

std::string short_string(Decoder& d, const YamlNode* node, size_t longest) {
  std::string text = d.string(node);
  if (text.size() > longest) d.fail(*node, concat(Decoder::name(*node), " is longer than ", longest, " bytes"));
  return text;
}

}  // namespace

Decision decode_decision(Decoder& d, const YamlNode& node) {
  Fields fields(d, node);
  Decision decision;
  decision.subject = short_string(d, fields["subject"], longest_decision_subject);
  if (const YamlNode* const operand = fields.find("operand"))
    decision.operand = static_cast<uint32_t>(d.integer(operand, 0, int32_max));
  decision.chosen = d.boolean(fields["chosen"]);
  decision.reason = short_string(d, fields["reason"], longest_decision_reason);
  if (const YamlNode* const launches = fields.find("launches")) {
    decision.launches = d.list(launches, [&](const YamlNode* n) {
      Fields work_fields(d, *n);
      PlannedWork work;
      work.unit = d.keyword(work_fields["unit"], parse_math_unit);
      work.percent = static_cast<int>(d.integer(work_fields["percent"], 1, 100));
      work.flops = d.formula(work_fields["flops"]);
      work.bytes = d.formula(work_fields["bytes"]);
      work_fields.finish();
      return work;
    });
    if (decision.launches.size() > most_decision_launches)
      d.fail(*launches, concat("'launches' has more than ", most_decision_launches, " entries"));
  }
  fields.finish();
  return decision;
}

std::vector<uint32_t> decode_decision_list(Decoder& d, const YamlNode* node, size_t count) {
  const auto list = d.list(
      node, [&](const YamlNode* n) { return static_cast<uint32_t>(d.integer(n, 0, static_cast<int64_t>(count) - 1)); });
  std::set<uint32_t> seen;
  for (size_t i = 0; i < list.size() && !d.error; ++i) {
    if (!seen.insert(list[i]).second) d.fail(node->children[i], concat("decision ", list[i], " stands twice"));
  }
  return list;
}

}  // namespace rtx::package
