// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_RECORDER_H_
#define MPSD_TESTS_OPS_RECORDER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/ops/fake_mps.h"

namespace mpsd::ops {

// What one part of a run (an optimizer step, an evaluation) asked of the
// device.
struct RecordedPart {
  std::string name;
  int64_t kernels = 0;  // calls
  int64_t bytes = 0;    // of all tensors made
  int64_t peak = 0;     // of what lives at a time, above the part's beginning
  int64_t syncs = 0;    // times the host waited for the device
  int64_t uploads = 0;  // copies to the device
  std::set<std::string> signatures;
  // How many rows were picked at a time by index: token ids and labels.
  std::set<int64_t> picked;
  int64_t live = 0;  // bytes at its end
  int64_t commits = 0;
  // Typed names of what made or moved numbers (operators.h).
  std::set<std::string> operators = {};
};

// Listens from its construction to its end.
class Recorder : public KernelObserver {
 public:
  Recorder();
  ~Recorder() override;

  // What came since the last Close is a part of this name.
  void Close(const std::string& name);

  const std::vector<RecordedPart>& parts() const { return parts_; }
  // Operators that have no kernel on MPS, and how often they were called.
  const std::map<std::string, int64_t>& missing() const { return missing_; }
  // Faults of calls (legality.h), each once.
  const std::set<std::string>& faults() const { return faults_; }
  // All operators that ran.
  const std::set<std::string>& operators() const { return operators_; }

  void OnKernel(const Kernel& kernel) override;
  void OnMemory(int64_t bytes, int64_t live) override;

 private:
  RecordedPart current_;
  int64_t live_at_begin_, commits_at_begin_, waits_at_begin_;
  std::vector<RecordedPart> parts_;
  std::map<std::string, int64_t> missing_;
  std::set<std::string> faults_, operators_;
};

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_RECORDER_H_
