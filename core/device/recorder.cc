// SPDX-License-Identifier: Apache-2.0
#include "core/device/recorder.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"

namespace mpsd::profile {
namespace {

using torch::autograd::profiler::KinetoEvent;
using torch::autograd::profiler::ProfilerResult;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

const ProfilerConfig& Config() {
  static const ProfilerConfig config(ProfilerState::KINETO);
  return config;
}

// Kineto ignores the activities that the machine lacks.
const std::set<ActivityType>& Activities() {
  static const std::set<ActivityType> activities = {ActivityType::CPU,
                                                    ActivityType::CUDA};
  return activities;
}

// cudaLaunchKernel, cuLaunchKernel: calls of CUDA's runtime and driver, which
// have the scope of operators.
bool IsRuntime(std::string_view name) {
  if (name.starts_with("cuda")) return true;
  return name.size() > 2 && name.starts_with("cu") &&
         std::isupper(static_cast<unsigned char>(name[2]));
}

bool IsMark(std::string_view name) { return name.starts_with(kMarkPrefix); }

// nullopt for events that are neither work nor one of our marks: instants,
// overhead, the device's copies of marks.
std::optional<EventKind> KindOf(const KinetoEvent& event,
                                const std::string& name) {
  if (event.deviceType() != at::DeviceType::CPU) {
    if (IsMark(name)) return std::nullopt;
    return EventKind::kDevice;
  }
  if (IsRuntime(name)) return EventKind::kRuntime;
  // The work of autograd's engine for a node, including the node's own. The
  // latter alone is reported as BACKWARD_FUNCTION, and skipped.
  if (name.starts_with("autograd::engine::")) return EventKind::kNode;
  switch (static_cast<at::RecordScope>(event.scope())) {
    case at::RecordScope::FUNCTION:
      return EventKind::kOperator;
    case at::RecordScope::USER_SCOPE:
      if (IsMark(name)) return EventKind::kMark;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Capture CaptureOf(const ProfilerResult& result) {
  Capture capture;
  capture.events.reserve(result.events().size());
  std::unordered_map<std::string, uint32_t> numbers;
  for (const KinetoEvent& from : result.events()) {
    std::string name = from.name();
    const auto kind = KindOf(from, name);
    if (!kind || from.durationNs() == 0) continue;
    const auto [known, is_new] =
        numbers.try_emplace(name, static_cast<uint32_t>(numbers.size()));
    if (is_new) capture.names.push_back(std::move(name));
    Event event;
    event.kind = *kind;
    event.name = known->second;
    event.start_ns = static_cast<int64_t>(from.startNs());
    event.end_ns = static_cast<int64_t>(from.endNs());
    event.sequence = from.sequenceNr();
    event.call = *kind == EventKind::kDevice ? from.linkedCorrelationId()
                                             : from.correlationId();
    capture.events.push_back(event);
  }
  return capture;
}

}  // namespace

struct Recorder::Result {
  std::unique_ptr<ProfilerResult> of_torch;
};

Recorder::Recorder() : result_(std::make_unique<Result>()) {}

Recorder::~Recorder() {
  if (!recording_) return;
  try {
    torch::autograd::profiler::disableProfiler();
  } catch (const std::exception&) {
    // The events are discarded.
  }
}

void Recorder::Start() {
  result_->of_torch.reset();
  torch::autograd::profiler::prepareProfiler(Config(), Activities());
  torch::autograd::profiler::enableProfiler(Config(), Activities());
  recording_ = true;
}

Capture Recorder::Stop() {
  recording_ = false;
  result_->of_torch = torch::autograd::profiler::disableProfiler();
  return CaptureOf(*result_->of_torch);
}

absl::Status Recorder::Save(const std::filesystem::path& path) const {
  if (result_->of_torch == nullptr) {
    return absl::FailedPreconditionError("nothing was recorded");
  }
  // Kineto frees memory that it does not own if it cannot open its file.
  if (!std::ofstream(path)) return base::ErrnoStatus(errno, path.string());
  result_->of_torch->save(path.string());
  std::error_code error;
  if (std::filesystem::file_size(path, error) == 0 || error) {
    return absl::InternalError(
        absl::StrCat("torch wrote no trace to ", path.string(),
                     ": its build has no Kineto, or the disk is full"));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::profile
