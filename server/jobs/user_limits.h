// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/store/user_ledger.h"

namespace mpsd::jobs {

// What is kept of a user's jobs that have ended. An absent figure removes
// nothing.
struct KeepRules {
  std::optional<absl::Duration> age = {};  // of a job, since its end
  std::optional<int64_t> jobs = {};        // the newest
  std::optional<int64_t> bytes = {};       // of the folders of all of them
  std::optional<absl::Duration> checkpoint_age = {};  // since the job's end

  bool operator==(const KeepRules&) const = default;
  bool KeepAll() const { return *this == KeepRules(); }
};

// The names of the rules: options, and keys of the table [user.NAME].
inline constexpr const char* kKeepKeys[] = {
    "keep-days", "keep-jobs", "keep-bytes", "keep-checkpoints-days"};

// A user's limits. An absent figure, and the widest range, is no limit, as for
// admins.
struct UserLimits {
  std::optional<int64_t> queued_jobs = {};   // QUEUED at a time
  std::optional<int64_t> upload_bytes = {};  // all blobs that the user sent or
                                             // uses
  std::optional<int64_t> result_bytes = {};  // in the user's jobs' folders
  int32_t lowest_priority = std::numeric_limits<int32_t>::min();
  int32_t highest_priority = std::numeric_limits<int32_t>::max();
  // How long each job may hold the device, all its attempts together. Also
  // applies to admins, by their name: the scheduler knows no roles.
  std::optional<absl::Duration> job_time = std::nullopt;
  // What is kept of the jobs that have ended; likewise.
  KeepRules keep = {};

  bool operator==(const UserLimits&) const = default;
};

// The names of the limits: keys of the table [user.NAME] in mpsd.toml, and
// options with --limit- before them.
inline constexpr const char* kLimitKeys[] = {
    "queued-jobs", "upload-bytes", "result-bytes", "priority", "job-hours"};

// Sets the limit, or the rule of kKeepKeys, `key`: "none", a count, a count of
// bytes ("5000", "20GiB"), for the priority LOW:HIGH, hours ("1.5"; 0 is none)
// or days. InvalidArgument says what was expected.
absl::Status SetLimit(UserLimits& limits, const std::string& key,
                      const std::string& value);

// "1.50 GiB (1610612736 bytes)".
std::string BytesInWords(int64_t bytes);

// The limits of every user.
struct LimitSettings {
  UserLimits others;  // of users that `users` does not contain
  std::map<std::string, UserLimits> users;

  const UserLimits& Of(const std::string& user) const;
  bool KeepsAll() const;
  bool operator==(const LimitSettings&) const = default;
};

// OK if `user` may have one more job in the queue in addition to `queued`;
// ResourceExhausted says how many are allowed, and who can raise that.
absl::Status CheckQueued(const std::string& user, const UserLimits& limits,
                         int64_t queued);
// InvalidArgument for a priority beyond the user's range.
absl::Status CheckPriority(const std::string& user, const UserLimits& limits,
                           int32_t priority);
// Whether `more` bytes may be added to the `bytes` of blobs that the user has;
// ResourceExhausted as above.
absl::Status CheckUploads(const std::string& user, const UserLimits& limits,
                          int64_t bytes, int64_t more);
// The same for a ledger, which adds up the bytes only if there is a limit.
UploadCheck UploadCheckOf(const std::string& user, const UserLimits& limits);
// Why a job ends that held the device for `held`, the maximum: the figures, who
// can raise the limit, and what to do then.
std::string DescribeTimeLimit(const std::string& user,
                              const std::string& job_id, absl::Duration held,
                              absl::Duration limit);
// ResourceExhausted if the user's jobs have reached their bytes already.
absl::Status CheckResults(const std::string& user, const UserLimits& limits,
                          int64_t bytes);

}  // namespace mpsd::jobs
