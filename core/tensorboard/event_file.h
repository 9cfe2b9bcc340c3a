// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TENSORBOARD_EVENT_FILE_H_
#define MPSD_CORE_TENSORBOARD_EVENT_FILE_H_

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/tensorboard/event.h"

namespace mpsd::tensorboard {

// The event file of one attempt of a run. An attempt adds a file and changes
// none: a TensorBoard that shows the run meanwhile reads on where it was, and
// what a kill cut short in an older file ends that file alone. Curves are for
// people, so that no fault of their file reaches the run: what cannot be
// written waits, up to kMostWaiting bytes, and later steps are left out then.
// Not thread-safe.
class EventFile {
 public:
  static constexpr size_t kMostWaiting = 64 << 10;

  // Makes `folder` where it is missing and in it a file whose name sorts behind
  // those of the older ones, the order in which TensorBoard reads them. Where
  // there are older ones, readers forget their events of `next_step` and later.
  // `clock` must outlive the file.
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
  // Only its descriptor is written to: a stream that failed would not say how
  // much of a record is in the file.
  const std::unique_ptr<std::FILE, CloseFile> file_;
  std::string waiting_;  // begins where the file ends, maybe within a record
};

}  // namespace mpsd::tensorboard

#endif  // MPSD_CORE_TENSORBOARD_EVENT_FILE_H_
