// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/user_limits.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/units.h"
#include "core/spec/fields.h"
#include "server/jobs/job_queue.h"

namespace mpsd::jobs {
namespace {

constexpr char kNone[] = "none";

struct Unit {
  const char* name;
  int64_t bytes;
};
constexpr Unit kUnits[] = {{"KiB", int64_t{1} << 10},
                           {"MiB", int64_t{1} << 20},
                           {"GiB", int64_t{1} << 30},
                           {"TiB", int64_t{1} << 40}};
constexpr int64_t kMost = int64_t{1} << 60;

std::optional<int64_t> Count(const std::string& text) {
  int64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count < 0 || count > kMost) {
    return std::nullopt;
  }
  return count;
}

absl::Status Expected(const std::string& what, const std::string& value) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", what, " or none, is '", value, "'"));
}

absl::Status SetPriority(UserLimits& limits, const std::string& value) {
  const size_t colon = value.find(':');
  int32_t low = limits.lowest_priority, high = limits.highest_priority;
  if (value == kNone) {
    low = std::numeric_limits<int32_t>::min();
    high = std::numeric_limits<int32_t>::max();
  } else if (colon == value.npos ||
             !absl::SimpleAtoi(value.substr(0, colon), &low) ||
             !absl::SimpleAtoi(value.substr(colon + 1), &high) || low > high) {
    return Expected("LOW:HIGH, as -10:10,", value);
  }
  limits.lowest_priority = low;
  limits.highest_priority = high;
  return absl::OkStatus();
}

absl::Status SetJobTime(UserLimits& limits, const std::string& value) {
  constexpr double kMostHours = 1e6;
  double hours = 0;
  if (value != kNone && (!absl::SimpleAtod(value, &hours) ||
                         !(hours >= 0 && hours <= kMostHours))) {
    return Expected("a number of hours, such as 1.5,", value);
  }
  limits.job_time.reset();
  if (hours > 0) limits.job_time = absl::Hours(hours);
  return absl::OkStatus();
}

absl::Status SetDays(std::optional<absl::Duration>& age,
                     const std::string& value) {
  constexpr double kMostDays = 1e6;
  double days = 0;
  if (value != kNone &&
      (!absl::SimpleAtod(value, &days) || !(days >= 0 && days <= kMostDays))) {
    return Expected("a number of days, such as 30,", value);
  }
  age.reset();
  if (value != kNone) age = days * absl::Hours(24);
  return absl::OkStatus();
}

// "[user.ada]", as TOML spells the name.
std::string TableOf(const std::string& user) {
  const bool bare =
      !user.empty() && std::all_of(user.begin(), user.end(), [](char c) {
        return absl::ascii_isalnum(c) || c == '_' || c == '-';
      });
  return bare ? absl::StrCat("[user.", user, "]")
              : absl::StrCat("[user.\"", user, "\"]");
}

std::string WhoRaises(const std::string& user, const std::string& key) {
  return absl::StrCat("; an admin raises it in mpsd.toml, ", TableOf(user), " ",
                      key);
}

}  // namespace

std::string BytesInWords(int64_t bytes) {
  const Unit* unit = nullptr;
  for (const Unit& known : kUnits) {
    if (bytes >= known.bytes) unit = &known;
  }
  if (unit == nullptr) return absl::StrCat(bytes, " bytes");
  return absl::StrFormat(
      "%.2f %s (%d bytes)",
      static_cast<double>(bytes) / static_cast<double>(unit->bytes), unit->name,
      bytes);
}

absl::Status SetLimit(UserLimits& limits, const std::string& key,
                      const std::string& value) {
  if (key == "priority") return SetPriority(limits, value);
  if (key == "job-hours") return SetJobTime(limits, value);
  if (key == "keep-days") return SetDays(limits.keep.age, value);
  if (key == "keep-checkpoints-days") {
    return SetDays(limits.keep.checkpoint_age, value);
  }
  std::optional<int64_t>* figure =
      key == "queued-jobs"    ? &limits.queued_jobs
      : key == "upload-bytes" ? &limits.upload_bytes
      : key == "result-bytes" ? &limits.result_bytes
      : key == "keep-jobs"    ? &limits.keep.jobs
      : key == "keep-bytes"   ? &limits.keep.bytes
                              : nullptr;
  if (figure == nullptr) {
    std::vector<std::string_view> keys(std::begin(kLimitKeys),
                                       std::end(kLimitKeys));
    keys.insert(keys.end(), std::begin(kKeepKeys), std::end(kKeepKeys));
    const auto near = spec::NearestName(key, keys);
    return absl::InvalidArgumentError(absl::StrCat(
        "'", key, "' is not a user limit; ",
        near ? absl::StrCat("did you mean '", std::string(*near), "'?")
             : absl::StrCat("there are ", absl::StrJoin(kLimitKeys, ", "), ", ",
                            absl::StrJoin(kKeepKeys, ", "))));
  }
  const bool bytes = key.ends_with("-bytes");
  const std::optional<int64_t> read =
      bytes ? base::ParseBytes(value) : Count(value);
  if (!read && value != kNone) {
    return Expected(bytes ? "a number of bytes, such as 5000 or 20GiB,"
                          : "a number, 0 or more,",
                    value);
  }
  *figure = read;
  return absl::OkStatus();
}

const UserLimits& LimitSettings::Of(const std::string& user) const {
  const auto found = users.find(user);
  return found == users.end() ? others : found->second;
}

bool LimitSettings::KeepsAll() const {
  return others.keep.KeepAll() &&
         std::all_of(users.begin(), users.end(), [](const auto& entry) {
           return entry.second.keep.KeepAll();
         });
}

absl::Status CheckQueued(const std::string& user, const UserLimits& limits,
                         int64_t queued) {
  if (!limits.queued_jobs || queued < *limits.queued_jobs) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      user, " has ", queued, " jobs in the queue, ", *limits.queued_jobs,
      " are allowed: wait until one starts, or cancel one (`mpsctl cancel`)",
      WhoRaises(user, "queued-jobs")));
}

absl::Status CheckPriority(const std::string& user, const UserLimits& limits,
                           int32_t priority) {
  if (priority >= limits.lowest_priority &&
      priority <= limits.highest_priority) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "priority: ", priority, " is not allowed; ", user, " may give ",
      limits.lowest_priority == UserLimits().lowest_priority
          ? "up to "
          : absl::StrCat(limits.lowest_priority, " to "),
      limits.highest_priority, WhoRaises(user, "priority")));
}

absl::Status CheckUploads(const std::string& user, const UserLimits& limits,
                          int64_t bytes, int64_t more) {
  if (!limits.upload_bytes ||
      (more <= *limits.upload_bytes && bytes <= *limits.upload_bytes - more)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the uploads of ", user, " have ", BytesInWords(bytes), ", and ",
      BytesInWords(more), " would be added, ",
      BytesInWords(*limits.upload_bytes),
      " are allowed: delete jobs whose data is not needed (`mpsctl delete`; "
      "their uploads are removed mpsd's --blob-grace-seconds later), or models "
      "that you pulled (`mpsctl model rm`)",
      WhoRaises(user, "upload-bytes")));
}

UploadCheck UploadCheckOf(const std::string& user, const UserLimits& limits) {
  if (!limits.upload_bytes) return nullptr;
  return [user, limits](int64_t bytes, int64_t more) {
    return CheckUploads(user, limits, bytes, more);
  };
}

std::string DescribeTimeLimit(const std::string& user,
                              const std::string& job_id, absl::Duration held,
                              absl::Duration limit) {
  return absl::StrCat("the job held the device for ", RoundTime(held),
                      ", each job", user.empty() ? "" : " of ", user,
                      " may for ", RoundTime(limit),
                      WhoRaises(user, "job-hours"), ", then `mpsctl retry ",
                      job_id, "` resumes from the last checkpoint");
}

absl::Status CheckResults(const std::string& user, const UserLimits& limits,
                          int64_t bytes) {
  if (!limits.result_bytes || bytes < *limits.result_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the checkpoints and results of ", user, "'s jobs have ",
      BytesInWords(bytes), ", ", BytesInWords(*limits.result_bytes),
      " are allowed: download what is needed and delete jobs (`mpsctl "
      "delete`), or keep fewer checkpoints (training.save_total_limit)",
      WhoRaises(user, "result-bytes")));
}

}  // namespace mpsd::jobs
