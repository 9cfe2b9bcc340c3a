// SPDX-License-Identifier: Apache-2.0
#include "core/spec/findings.h"

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/strings.h"

namespace mpsd::spec {

namespace {
constexpr size_t kMaxShown = 20;
}  // namespace

void Findings::Add(int line, std::string_view path, std::string_view message) {
  const std::string_view colon = path.empty() ? "" : ": ";
  list_.push_back({line, base::Cat(path, colon, message)});
}

absl::Status Findings::ToStatus(std::string_view origin) const {
  if (list_.empty()) return absl::OkStatus();
  std::vector<Finding> sorted = list_;
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Finding& a, const Finding& b) { return a.line < b.line; });
  std::string message;
  for (size_t i = 0; i < std::min(sorted.size(), kMaxShown); ++i) {
    message += base::Cat(i == 0 ? "" : "\n", origin, ":", sorted[i].line, ": ",
                         base::Printable(sorted[i].text));
  }
  if (sorted.size() > kMaxShown) {
    message += base::Cat("\n… and ", sorted.size() - kMaxShown, " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace mpsd::spec
