// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/usage_book.h"

#include <algorithm>
#include <cmath>

namespace mpsd::jobs {

void UsageBook::Charge(const std::string& owner, absl::Duration used,
                       absl::Duration now) {
  if (half_life_ <= absl::ZeroDuration() || used <= absl::ZeroDuration()) {
    return;
  }
  Use& use = uses_[owner];
  use = {SecondsLeft(use, now) + absl::ToDoubleSeconds(used), now};
}

absl::Duration UsageBook::Used(const std::string& owner,
                               absl::Duration now) const {
  const auto use = uses_.find(owner);
  if (use == uses_.end()) return absl::ZeroDuration();
  return absl::Seconds(SecondsLeft(use->second, now));
}

double UsageBook::Share(const std::string& owner) const {
  const auto use = uses_.find(owner);
  if (use == uses_.end()) return kNoShare;
  // The logarithm of what is left at time t is this number less t / half_life.
  return std::log2(use->second.seconds) +
         absl::FDivDuration(use->second.at, half_life_);
}

std::vector<std::string> UsageBook::Owners() const {
  std::vector<std::string> owners;
  owners.reserve(uses_.size());
  for (const auto& [owner, use] : uses_) owners.push_back(owner);
  return owners;
}

std::vector<std::string> UsageBook::Forget(absl::Duration now) {
  std::vector<std::string> forgotten;
  std::erase_if(uses_, [&](const auto& entry) {
    if (absl::Seconds(SecondsLeft(entry.second, now)) >= kLeast) return false;
    forgotten.push_back(entry.first);
    return true;
  });
  return forgotten;
}

double UsageBook::SecondsLeft(const Use& use, absl::Duration now) const {
  if (use.seconds <= 0) return 0;
  const absl::Duration age = std::max(now - use.at, absl::ZeroDuration());
  return use.seconds * std::exp2(-absl::FDivDuration(age, half_life_));
}

}  // namespace mpsd::jobs
