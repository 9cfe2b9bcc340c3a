// SPDX-License-Identifier: Apache-2.0
#include "core/train/observer.h"

#include <algorithm>
#include <utility>

namespace mpsd::train {

void Observer::OnWarning(const std::string& text) {
  if (warnings_.size() >= kMostWarnings) return;
  std::string told = text.substr(0, kLongestWarning);
  if (std::find(warnings_.begin(), warnings_.end(), told) != warnings_.end()) {
    return;
  }
  if (warnings_.size() + 1 == kMostWarnings) {
    told = "there are more warnings, which are left out";
  }
  warnings_.push_back(std::move(told));
  TellWarning(warnings_.back());
}

}  // namespace mpsd::train
