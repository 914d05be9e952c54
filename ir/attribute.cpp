#include "ir/attribute.h"

#include <algorithm>

namespace rtx {

const AttributeValue* AttributeList::find(std::string_view name) const {
  for (const auto& [key, value] : entries_)
    if (key == name) return &value;
  return nullptr;
}

void AttributeList::set(std::string_view name, AttributeValue value) {
  for (auto& [key, old] : entries_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::string(name), std::move(value));
}

bool AttributeList::erase(std::string_view name) {
  return std::erase_if(entries_, [&](const auto& entry) { return entry.first == name; }) > 0;
}

}  // namespace rtx
