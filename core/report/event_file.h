// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_EVENT_FILE_H_
#define MPSD_CORE_REPORT_EVENT_FILE_H_

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/report/event.h"

namespace mpsd::tensorboard {

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

}  // namespace mpsd::tensorboard

#endif  // MPSD_CORE_REPORT_EVENT_FILE_H_
