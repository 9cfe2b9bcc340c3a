// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/host/machine.h"

namespace mpsd::device {

const Traits& TraitsOf(at::Device device) {
  using backend::Choice;
  if (device.is_mps()) return backend::TraitsOf(Choice::kMps);
  return backend::TraitsOf(device.is_cpu() ? Choice::kCpu : Choice::kCuda);
}

std::string Device::chip() const { return host::ProcessorName(); }

at::Tensor CpuRngState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void SetCpuRngState(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

absl::StatusOr<std::unique_ptr<Device>> OpenBest() {
  if (auto mps = OpenMps(); mps.ok()) return mps;
  if (auto cuda = OpenCuda(); cuda.ok()) return cuda;
  return OpenCpu();
}

absl::StatusOr<std::unique_ptr<Device>> Open(backend::Choice choice) {
  switch (choice) {
    case backend::Choice::kMps:
      return OpenMps();
    case backend::Choice::kCuda:
      return OpenCuda();
    case backend::Choice::kCpu:
      return OpenCpu();
    case backend::Choice::kAuto:
      break;
  }
  return OpenBest();
}

namespace {

// By kWarmUpSteps the device has compiled a graph for every shape; the smallest
// overhead of the later steps up to kBaselineSteps is the baseline.
constexpr int64_t kWarmUpSteps = 10;
constexpr int64_t kBaselineSteps = 20;
constexpr double kNearlyAll = 0.95;  // as the worker's high watermark
constexpr double kMuchGrowth = 0.1;  // share of the recommended memory

void Raise(std::optional<int64_t>& peak, const std::optional<int64_t>& now) {
  if (now) peak = std::max(peak.value_or(0), *now);
}

std::string MiB(int64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

}  // namespace

std::optional<std::string> MemoryWatch::Observe(const Memory& memory) {
  ++steps_;
  Raise(summary_.peak_allocated, memory.peak_allocated);
  Raise(summary_.peak_driver, memory.driver_allocated);
  if (!memory.driver_allocated || !memory.current_allocated) {
    return std::nullopt;
  }
  const int64_t driver = *memory.driver_allocated;
  const int64_t overhead = driver - *memory.current_allocated;
  if (steps_ > kWarmUpSteps && steps_ <= kBaselineSteps) {
    baseline_ = std::min(baseline_.value_or(overhead), overhead);
  }
  if (baseline_) summary_.overhead_growth = overhead - *baseline_;
  if (!memory.recommended_max) return std::nullopt;
  const auto most = static_cast<double>(*memory.recommended_max);
  if (!reported_full_ && static_cast<double>(driver) > kNearlyAll * most) {
    reported_full_ = true;
    return absl::StrCat("the device holds ", MiB(driver), " of the ",
                        MiB(*memory.recommended_max),
                        " that the machine recommends: results may be lost; "
                        "lower training.per_device_train_batch_size or "
                        "max_length");
  }
  if (!reported_growth_ &&
      static_cast<double>(summary_.overhead_growth.value_or(0)) >
          kMuchGrowth * most) {
    reported_growth_ = true;
    return absl::StrCat("the driver's memory beyond tensors has grown by ",
                        MiB(*summary_.overhead_growth), " to ", MiB(overhead),
                        " since the first steps");
  }
  return std::nullopt;
}

namespace {

// Bounds `reported_`: texts that contain numbers might never repeat.
constexpr size_t kMaxReported = 200;

}  // namespace

WarningCapture::WarningCapture(std::function<void(const std::string&)> report)
    : report_(std::move(report)), always_(true), guard_(this) {}

void WarningCapture::process(const c10::Warning& warning) {
  const std::string op = CpuFallbackOp(warning.msg());
  if (!op.empty()) {
    ++fallbacks_[op];
  } else if (reported_.size() < kMaxReported &&
             reported_.insert(warning.msg()).second) {
    report_(warning.msg());
  }
}

std::string CpuFallbackOp(const std::string& warning) {
  constexpr char kHead[] = "The operator '";
  const size_t head = warning.find(kHead);
  if (head == std::string::npos ||
      warning.find("fall back to run on the CPU") == std::string::npos) {
    return "";
  }
  const size_t begin = head + sizeof kHead - 1;
  const size_t end = warning.find('\'', begin);
  return end == std::string::npos ? "" : warning.substr(begin, end - begin);
}

}  // namespace mpsd::device
