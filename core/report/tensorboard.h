// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/report/report.h"

// TensorBoard's event files: TFRecords of the message tensorflow.Event. The few
// fields that curves need are written by hand, because a worker links no
// protobuf (torch has its own symbols).

namespace mpsd::tensorboard {

// Tag and value; TensorBoard groups curves by the tag up to its slash.
using Scalars = std::vector<std::pair<std::string, double>>;

// The first event of a file: declares the format.
std::string VersionEvent(absl::Time time);
// Makes readers forget earlier events of `step` and later: after a restart a
// run resumes at an earlier step.
std::string RestartEvent(absl::Time time, int64_t step);
// Values of one step, stored as 32-bit floats.
std::string ScalarsEvent(absl::Time time, int64_t step, const Scalars& scalars);

// An event as a file has it: length and event, each with a checksum.
std::string RecordOf(std::string_view event);

// The event file of one attempt of a run. An attempt adds a file and changes
// none: a TensorBoard that shows the run meanwhile continues where it was, and
// a record cut short by a kill in an older file affects only that file. Curves
// must not affect the run, so no error of their file reaches it: data that
// cannot be written waits, up to kMostWaiting bytes; beyond that later steps
// are dropped. Not thread-safe.
class EventFile {
 public:
  static constexpr size_t kMostWaiting = 64 << 10;

  // Creates `folder` if missing and in it a file whose name sorts after those
  // of older ones, the order in which TensorBoard reads them. If there are
  // older ones, readers forget their events of `next_step` and later. `clock`
  // must outlive the file.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::filesystem::path& folder, int64_t next_step,
      const base::Clock& clock);

  void Add(int64_t step, const Scalars& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  EventFile(std::filesystem::path path, std::FILE* file,
            const base::Clock& clock)
      : path_(std::move(path)), clock_(clock), file_(file) {}
  void Append(std::string_view event);

  const std::filesystem::path path_;
  const base::Clock& clock_;
  // Only its descriptor is written to: a stream that failed would not report
  // how much of a record is in the file.
  const std::unique_ptr<std::FILE, CloseFile> file_;
  std::string waiting_;  // continues the file, maybe inside a record
};

// A report's numbers as curves, named as Transformers' Trainer names its own:
// "train/loss", "eval/loss", "eval/accuracy"; in addition "memory/…". Absent
// values have no curve.
Scalars ScalarsOf(const report::Progress& progress);
Scalars ScalarsOf(const report::Evaluated& evaluated);

// CRC-32C (Castagnoli; RFC 3720, B.4). Abseil has this only since its 2023
// release.
uint32_t Crc32c(std::string_view bytes);

// What a record stores instead of the CRC, so that the CRC of bytes that
// contain CRCs stays a good one.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace mpsd::tensorboard
