// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_IMPORT_RUN_VALUES_H_
#define MPSD_CLIENT_IMPORT_RUN_VALUES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/import/run_arguments.h"

namespace mpsd::client {

// The arguments of a run by name, with their values as HfArgumentParser
// understands them. Remembers which names were asked for, and the first value
// of a wrong type.
class RunValues {
 public:
  explicit RunValues(const RunArguments& run) : run_(run) {}

  // Null for an argument that is absent.
  const RunArgument* Find(std::string_view name);
  bool Has(std::string_view name) { return Find(name) != nullptr; }
  // The argument's values, joined by spaces; "" for an argument that is absent.
  std::string Text(std::string_view name);
  // Whether the argument is present and not false.
  bool IsOn(std::string_view name);
  // nullopt for an argument that is absent; a value that is no number sets
  // fault().
  std::optional<double> Number(std::string_view name);

  void Fault(const RunArgument& argument, const char* expected);
  void Fault(const std::string& message);
  // InvalidArgument for the first fault.
  const absl::Status& fault() const { return fault_; }

  const std::set<std::string, std::less<>>& asked() const { return asked_; }

 private:
  const RunArguments& run_;
  std::set<std::string, std::less<>> asked_;
  absl::Status fault_;
};

std::string TextOf(const RunArgument& argument);
std::optional<int64_t> IntegerOf(const std::string& text);
std::optional<double> NumberOf(const std::string& text);
// "yes", "true", "t", "y", "1" and their opposites, in any case.
std::optional<bool> BoolOf(const std::string& text);
// Whether the argument only says that something is not wanted: "False", "none",
// "0".
bool IsOff(const RunArgument& argument);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_IMPORT_RUN_VALUES_H_
