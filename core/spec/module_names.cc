// SPDX-License-Identifier: Apache-2.0
#include "core/spec/module_names.h"

namespace mpsd::spec {

ModuleNames::ModuleNames(const std::vector<std::string>& entries)
    : entries_(entries) {
  for (const std::string& entry : entries) met_.emplace(entry, false);
}

bool ModuleNames::Mean(std::string_view name) {
  bool means = false;
  while (true) {
    const auto found = met_.find(name);
    if (found != met_.end()) found->second = means = true;
    const size_t dot = name.find('.');
    if (dot == std::string_view::npos) return means;
    name.remove_prefix(dot + 1);
  }
}

const std::string* ModuleNames::Unmet() const {
  for (const std::string& entry : entries_) {
    if (!met_.at(entry)) return &entry;
  }
  return nullptr;
}

}  // namespace mpsd::spec
