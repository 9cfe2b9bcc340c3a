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

// A sweep's measurements, in a file of JSON lines, so that an interrupted sweep
// can resume. The file also records the point being measured, because a worker
// that the system kills for its memory use reports nothing.
class KeptPoints {
 public:
  // Reads `file`. Points stored under another `key`, or unreadable ones, are
  // dropped. `key` names what the points depend on, such as versions.
  static KeptPoints Read(std::filesystem::path file, std::string key);

  const std::vector<nlohmann::json>& points() const { return points_; }
  // How often the worker ended while measuring the point of that number,
  // without a report.
  int64_t Ends(int64_t number) const;

  // Each replaces the whole file atomically.
  absl::Status Begin(int64_t number);  // this point is being measured
  absl::Status Abandon();              // it is not, for a known reason
  absl::Status Add(nlohmann::json point);

 private:
  KeptPoints(std::filesystem::path file, std::string key)
      : file_(std::move(file)), key_(std::move(key)) {}
  absl::Status Write() const;

  std::filesystem::path file_;
  std::string key_;
  std::vector<nlohmann::json> points_;
  int64_t begun_ = 0;  // the number last begun; 0: no open point
  int64_t ends_ = 0;   // times it was begun before without ending
};

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_KEPT_POINTS_H_
