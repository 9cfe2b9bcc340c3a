// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_USAGE_BOOK_H_
#define MPSD_SERVER_JOBS_USAGE_BOOK_H_

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace mpsd::jobs {

// What each owner used of the device lately: seconds, of which half are
// forgotten after each half-life. Times are monotonic, so that no jump of the
// wall clock forgets anything. Not thread-safe.
class UsageBook {
 public:
  // Less than this is forgotten: an owner who used so little is as one who used
  // nothing.
  static constexpr absl::Duration kLeast = absl::Seconds(1);
  // The share of an owner who used nothing.
  static constexpr double kNoShare = -std::numeric_limits<double>::infinity();

  // With a `half_life` of zero the book stays empty.
  explicit UsageBook(absl::Duration half_life = absl::ZeroDuration())
      : half_life_(half_life) {}

  absl::Duration half_life() const { return half_life_; }

  void Charge(const std::string& owner, absl::Duration used,
              absl::Duration now);
  // What is left at `now` of the owner's use.
  absl::Duration Used(const std::string& owner, absl::Duration now) const;
  // A number by which owners are compared: greater for who used more. The order
  // of two owners does not depend on the time, because both forget alike, so
  // that a share changes with Charge alone.
  double Share(const std::string& owner) const;
  std::vector<std::string> Owners() const;

  // Takes out the owners of whose use less than kLeast is left; returns them.
  std::vector<std::string> Forget(absl::Duration now);

 private:
  struct Use {
    double seconds = 0;  // as of `at`; positive
    absl::Duration at;
  };
  double SecondsLeft(const Use& use, absl::Duration now) const;

  absl::Duration half_life_;
  std::map<std::string, Use> uses_;  // by owner
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_USAGE_BOOK_H_
