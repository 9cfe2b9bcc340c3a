// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/ops/fake_mps.h"

// What runs ask of the fake MPS, and what of it MPS computes wrongly, aborts on
// or has not.
namespace mpsd::ops {

// GEMMs with as many products a sum or more: wrong on M1 and M2 (pytorch
// #177116, #195163).
inline constexpr int64_t kGemmInner = 32'767;
// A tensor must have fewer elements and bytes (pytorch#149261, #197636).
inline constexpr int64_t kMaxElements = int64_t{1} << 31;
inline constexpr int64_t kMaxBytes = int64_t{1} << 32;

// One sentence a fault:
//   float64 or complex numbers on the device; it has none
//   an int64 product of matrices
//   GEMMs with kGemmInner products a sum
//   tensors of kMaxElements or kMaxBytes
//   floating dtypes mixed in one call (pytorch#190054)
//   something written in place that is not contiguous, copy_ excepted: kernels
//     have left such targets as they were (pytorch#118115, #165267, #176171)
//   an fp32 product whose left side is a transposed view (pytorch#193487)
std::vector<std::string> Faults(const Kernel& kernel);

// Whether the host waits for the device: numbers or shapes are read back, or
// copied there without non_blocking (MPSStream::copy_and_sync then commits and
// waits, no matter what had been encoded before).
bool Synchronises(const Kernel& kernel);

// Whether it is a copy from the host to the device.
bool Uploads(const Kernel& kernel);

// "aten::mm [8, 4] float, [4, 2] float"; equal for calls that MPS can run with
// one compiled graph.
std::string Signature(const Kernel& kernel);

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
  // Typed names of what made or moved numbers.
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
  // Faults of calls, each once.
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
