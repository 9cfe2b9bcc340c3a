// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_RECORDER_H_
#define MPSD_CORE_DEVICE_RECORDER_H_

#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "core/device/capture.h"

namespace mpsd::profile {

// torch's profiler (Kineto) on the calling thread, and on autograd's threads
// that work for it: calls of ATen, marks, on CUDA the device's kernels. This is
// the only place that uses torch's profiler. One recorder per process may
// record at a time; all calls come from one thread. torch's exceptions pass
// through.
class Recorder {
 public:
  Recorder();
  // Ends a running recording.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool recording() const { return recording_; }
  void Start();
  // Ends the recording and returns the events since Start.
  Capture Stop();

  // Writes what the last Stop returned to `path`, as JSON in Chrome's trace
  // format. Internal if torch wrote no such file: its build has no Kineto, or
  // the disk is full.
  absl::Status Save(const std::filesystem::path& path) const;

 private:
  struct Result;

  bool recording_ = false;
  std::unique_ptr<Result> result_;
};

}  // namespace mpsd::profile

#endif  // MPSD_CORE_DEVICE_RECORDER_H_
