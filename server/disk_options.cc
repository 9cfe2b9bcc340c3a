// SPDX-License-Identifier: Apache-2.0
#include "server/disk_options.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/units.h"

namespace mpsd {

DiskOptions::DiskOptions() {
  const Config defaults;
  min_free_bytes_ = defaults.min_free_bytes;
  blob_grace_seconds_ = absl::ToDoubleSeconds(defaults.blob_grace);
}

void DiskOptions::Declare(CLI::App& app) {
  app.add_option(
         "--min-free-bytes", min_free_bytes_,
         "No upload begins that would leave less of the state folder's disk "
         "free, and no job starts with less, plus space for its checkpoint")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 60))
      ->capture_default_str();
  app.add_option("--blob-grace-seconds", blob_grace_seconds_,
                 "How long an unused upload is kept after it arrived, was last "
                 "requested, or its last job was deleted")
      ->check(CLI::Range(1.0, 1e9))
      ->capture_default_str();
  app.add_option(
      "--state-budget-bytes", state_budget_,
      "Budget of the state folder, such as 500GiB: the oldest jobs that have "
      "ended first lose their checkpoints, then are removed [none]");
}

absl::Status DiskOptions::Finish(Config& config) const {
  config.min_free_bytes = min_free_bytes_;
  config.blob_grace = absl::Seconds(blob_grace_seconds_);
  if (state_budget_.empty() || state_budget_ == "none") {
    return absl::OkStatus();
  }
  const std::optional<int64_t> bytes = base::ParseBytes(state_budget_);
  if (!bytes || *bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state-budget-bytes: expected a number of bytes, such "
                     "as 5000 or 500GiB, or none, is '",
                     state_budget_, "'"));
  }
  config.state_budget = *bytes;
  return absl::OkStatus();
}

}  // namespace mpsd
