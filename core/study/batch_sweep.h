// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/study/study.h"

namespace mpsd::study {

// How a sweep chooses its batches, and what it concludes; uses no device.
struct BatchTrial {
  int64_t batch = 0;
  bool fits = false;
  int64_t held_bytes = 0;  // 0: unknown
  double throughput = 0;   // anything per second; 0: not measured
};

// The next batch to try: `first`, then twice the largest that fits, up to
// `most`, and once one does not fit, the midpoint between them. nullopt: the
// largest that fits is known.
std::optional<int64_t> NextBatch(const std::vector<BatchTrial>& trials,
                                 int64_t first, int64_t most);

// The greatest number of trials left, for a progress bar.
int64_t TrialsLeft(const std::vector<BatchTrial>& trials, int64_t first,
                   int64_t most);

// The predicted memory of `batch`, by a straight line through the two largest
// trials below it that fit; with one trial, its memory beyond `resident_bytes`
// grows in proportion to the batch. nullopt without a trial below.
std::optional<int64_t> PredictedBytes(const std::vector<BatchTrial>& trials,
                                      int64_t resident_bytes, int64_t batch);

// The largest batch that fits below any that does not; 0: no batch fits.
int64_t LargestBatch(const std::vector<BatchTrial>& trials);

// The smallest batch that fits whose throughput is at most `part` below the
// best; 0: no batch fits.
int64_t KneeOf(const std::vector<BatchTrial>& trials, double part);

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
