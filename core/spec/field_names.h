// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_FIELD_NAMES_H_
#define MPSD_CORE_SPEC_FIELD_NAMES_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mpsd::spec {

// The number of insertions, deletions, substitutions and swaps of neighbours
// that turn `a` into `b` (optimal string alignment).
int EditDistance(std::string_view a, std::string_view b);

// The candidate that `name` was most likely meant to be: at most a third of its
// letters differ, ignoring case and "-" for "_". Absent if no candidate is
// near.
std::optional<std::string_view> NearestName(
    std::string_view name, const std::vector<std::string_view>& candidates);

// The error text for a field that `section` ("", "lora", "training", "dataset")
// does not have. For a field of Transformers, TRL or PEFT: why mpsd lacks it.
// Else the valid name: another tool's name for it, the same name in another
// section, or a similar name. Else the list of names.
std::string UnknownField(std::string_view section, std::string_view name,
                         const std::set<std::string, std::less<>>& known);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_FIELD_NAMES_H_
