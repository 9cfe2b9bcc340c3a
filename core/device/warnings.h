// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_WARNINGS_H_
#define MPSD_CORE_DEVICE_WARNINGS_H_

#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace mpsd::device {

// While it exists, receives torch's warnings of the thread that made it.
// Warnings that an operator without a Metal kernel ran on the CPU are counted
// by operator; every other text is passed to `tell` once.
//
// torch issues all these warnings at one place in its code, by default once per
// process: this class makes torch repeat every warning, process-wide.
// Autograd's threads pass their warnings to the thread that called backward.
class WarningCapture final : private c10::WarningHandler {
 public:
  // `tell` is called on this thread, from inside torch: it must not throw.
  explicit WarningCapture(std::function<void(const std::string&)> tell);

  // "aten::linalg_eig" → runs on the CPU since this object was made.
  const std::map<std::string, int64_t>& cpu_fallback_ops() const {
    return fallbacks_;
  }

 private:
  void process(const c10::Warning& warning) override;

  const std::function<void(const std::string&)> tell_;
  std::map<std::string, int64_t> fallbacks_;
  std::set<std::string> told_;
  const c10::WarningUtils::WarnAlways always_;
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

// The operator that `warning` says ran on the CPU (MPSFallback.mm: "The
// operator 'aten::x' is not currently supported on the MPS backend and will
// fall back to run on the CPU."); empty for any other text.
std::string CpuFallbackOp(const std::string& warning);

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_WARNINGS_H_
