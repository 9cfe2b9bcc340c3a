// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_STEP_SCOPE_H_
#define MPSD_CORE_DEVICE_STEP_SCOPE_H_

namespace mpsd::device {

// Scope of one optimizer step: on macOS an autorelease pool, since a
// command-line program has no run loop that would release Metal's objects.
class StepScope {
 public:
  StepScope();
  ~StepScope();
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  void* pool_;
};

}  // namespace mpsd::device

#endif  // MPSD_CORE_DEVICE_STEP_SCOPE_H_
