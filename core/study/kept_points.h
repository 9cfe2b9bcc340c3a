// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_KEPT_POINTS_H_
#define MPSD_CORE_STUDY_KEPT_POINTS_H_

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::study {

// What a sweep has measured, in a file of JSON lines, so that a sweep that was
// ended in the middle goes on. The file also has the point that is being
// measured: a worker that the system ends for its memory says nothing itself.
class KeptPoints {
 public:
  // Reads `file`. What was kept under another `key`, or cannot be read, is
  // dropped. `key` names what the points depend on, such as versions.
  static KeptPoints Read(std::filesystem::path file, std::string key);

  const std::vector<nlohmann::json>& points() const { return points_; }
  // How often the worker ended while it measured the point of that number,
  // without a word.
  int64_t Ends(int64_t number) const;

  // Writes the whole file anew, whole or not at all.
  absl::Status Begin(int64_t number);  // this point is now measured
  absl::Status Abandon();              // it is not, for a reason that is known
  absl::Status Add(nlohmann::json point);

 private:
  KeptPoints(std::filesystem::path file, std::string key)
      : file_(std::move(file)), key_(std::move(key)) {}
  absl::Status Write() const;

  std::filesystem::path file_;
  std::string key_;
  std::vector<nlohmann::json> points_;
  int64_t begun_ = 0;  // the number last begun; 0: none is open
  int64_t ends_ = 0;   // times it was begun before, and not ended
};

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_KEPT_POINTS_H_
