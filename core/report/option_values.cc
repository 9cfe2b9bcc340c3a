// SPDX-License-Identifier: Apache-2.0
#include "core/report/option_values.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "core/base/status_macros.h"

namespace mpsd::runbook {
namespace {

using Json = nlohmann::json;

constexpr char kOwnChoice[] = ", or 0 for mpsd's own choice";

bool IsUnset(const Json& options, const char* field) {
  const auto found = options.find(field);
  return found == options.end() || *found == 0;
}

// `more`: what is allowed in addition to the numbers from `min` to `max`.
absl::StatusOr<double> Number(const Json& options, const char* field,
                              double min, double max, bool whole,
                              const char* more) {
  const Json& given = options.at(field);
  const double value = given.is_number() ? given.get<double>() : NAN;
  if (value >= min && value <= max && (!whole || value == std::floor(value))) {
    return value;
  }
  return NotAllowed(field,
                    absl::StrCat(whole ? "a whole number" : "a number",
                                 " from ", min, " to ", max, more),
                    given);
}

}  // namespace

absl::Status NotAllowed(const std::string& field, const std::string& allowed,
                        const Json& given) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be ", allowed, ", is ",
                   base::Quotable(given.dump(-1, ' ', false,
                                             Json::error_handler_t::replace))));
}

absl::StatusOr<double> NumberOption(const Json& options, const char* field,
                                    double unset, double min, double max) {
  if (IsUnset(options, field)) return unset;
  return Number(options, field, min, max, false, kOwnChoice);
}

absl::StatusOr<int64_t> IntOption(const Json& options, const char* field,
                                  int64_t unset, int64_t min, int64_t max) {
  if (IsUnset(options, field)) return unset;
  ASSIGN_OR_RETURN(const double value,
                   Number(options, field, static_cast<double>(min),
                          static_cast<double>(max), true, kOwnChoice));
  return static_cast<int64_t>(value);
}

absl::StatusOr<std::optional<int64_t>> IntIfThere(const Json& options,
                                                  const char* field,
                                                  int64_t min, int64_t max) {
  if (!options.contains(field)) return std::nullopt;
  ASSIGN_OR_RETURN(const double value,
                   Number(options, field, static_cast<double>(min),
                          static_cast<double>(max), true, ""));
  return static_cast<int64_t>(value);
}

absl::StatusOr<backend::Choice> DeviceNamed(const std::string& field,
                                            const Json& name) {
  const std::optional<backend::Choice> choice =
      name.is_string() ? backend::ChoiceOf(name.get_ref<const std::string&>())
                       : std::nullopt;
  if (choice && *choice != backend::Choice::kAuto) return *choice;
  return NotAllowed(field, "cpu, cuda or mps", name);
}

}  // namespace mpsd::runbook
