// SPDX-License-Identifier: Apache-2.0
#include "core/train/observer.h"

#include <algorithm>
#include <utility>

namespace mpsd::train {

void Observer::OnWarning(const std::string& text) {
  if (warnings_.size() >= kMostWarnings) return;
  std::string warning = text.substr(0, kLongestWarning);
  if (std::find(warnings_.begin(), warnings_.end(), warning) !=
      warnings_.end()) {
    return;
  }
  if (warnings_.size() + 1 == kMostWarnings) {
    warning = "further warnings are omitted";
  }
  warnings_.push_back(std::move(warning));
  TellWarning(warnings_.back());
}

}  // namespace mpsd::train
