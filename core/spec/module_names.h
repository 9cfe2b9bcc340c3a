// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_MODULE_NAMES_H_
#define MPSD_CORE_SPEC_MODULE_NAMES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace mpsd::spec {

// Entries of a list of module names, as target_modules has them: a full name,
// or the end of one behind a dot. A look-up costs the same for any number of
// entries.
class ModuleNames {
 public:
  // `entries` must outlive the object.
  explicit ModuleNames(const std::vector<std::string>& entries);

  // Whether an entry names `name`; marks every such entry as met.
  bool Mean(std::string_view name);

  // The first entry that was not met, or null.
  const std::string* Unmet() const;

 private:
  const std::vector<std::string>& entries_;
  std::unordered_map<std::string_view, bool> met_;  // by entry
};

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_MODULE_NAMES_H_
