// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MODULE_NAMES_H_
#define MPSD_CORE_SPEC_MODULE_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mpsd::spec {

// Entries of a list of module names, such as target_modules: a full name, or
// the end of one after a dot. A look-up takes the same time for any number of
// entries.
class ModuleNames {
 public:
  // `entries` must outlive the object.
  explicit ModuleNames(const std::vector<std::string>& entries);

  // Whether an entry names `name`; marks all such entries as met.
  bool Mean(std::string_view name);

  // An entry that was never met (the first), or null.
  const std::string* Unmet() const;

 private:
  const std::vector<std::string>& entries_;
  std::unordered_map<std::string_view, bool> met_;  // by entry
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MODULE_NAMES_H_
