// SPDX-License-Identifier: Apache-2.0
#include "core/device/profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#define ZLIB_CONST  // deflate does not write to its input
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

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

namespace {

namespace fs = std::filesystem;

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip's frame
constexpr size_t kPiece = 1 << 20;    // bytes at a time

// The stream of one file.
class Deflater {
 public:
  Deflater() {
    base::Check(deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow,
                             /*memLevel=*/8, Z_DEFAULT_STRATEGY) == Z_OK,
                "zlib has its memory");
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  absl::Status Append(std::string_view bytes, bool last,
                      base::AtomicFile& file) {
    stream_.next_in = reinterpret_cast<const Bytef*>(bytes.data());
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      std::array<char, kPiece> packed;
      stream_.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream_.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      RETURN_IF_ERROR(
          file.Append({packed.data(), packed.size() - stream_.avail_out}));
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

  int64_t packed_bytes() const {
    return static_cast<int64_t>(stream_.total_out);
  }

 private:
  z_stream stream_{};
};

bool EndsAsJson(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  return last != std::string_view::npos && text[last] == '}';
}

// The end of the trace, after its events, without the path to which Kineto
// wrote it: a trace is shared, and the path is local to this machine.
struct Ending {
  size_t begin;  // bytes of the trace before it
  std::string text;
};

Ending WithoutPath(std::string_view trace) {
  constexpr std::string_view kName = "\"traceName\":";
  constexpr size_t kLongest = 16 << 10;
  const size_t from = trace.size() - std::min(trace.size(), kLongest);
  const size_t found = trace.substr(from).rfind(kName);
  if (found == std::string_view::npos) return {trace.size(), ""};
  return {from + found, absl::StrCat(std::string(kName), " \"trace\"\n}\n")};
}

absl::StatusOr<int64_t> Pack(const fs::path& json, const fs::path& gzip,
                             int64_t limit) {
  ASSIGN_OR_RETURN(const auto from, base::MappedFile::Open(json));
  const std::string_view text = from->bytes();
  if (text.size() > static_cast<size_t>(limit)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the trace has ", text.size(), " bytes, at most ", limit,
                     " are kept: profile fewer steps, or a smaller batch"));
  }
  if (!EndsAsJson(text)) {
    return absl::InternalError("the trace is incomplete: is the disk full?");
  }
  ASSIGN_OR_RETURN(auto file, base::AtomicFile::Create(gzip));
  Deflater deflater;
  const Ending ending = WithoutPath(text);
  for (size_t at = 0; at < ending.begin; at += kPiece) {
    const size_t size = std::min(kPiece, ending.begin - at);
    RETURN_IF_ERROR(
        deflater.Append(text.substr(at, size), /*last=*/false, *file));
  }
  RETURN_IF_ERROR(deflater.Append(ending.text, /*last=*/true, *file));
  RETURN_IF_ERROR(file->Commit());
  return deflater.packed_bytes();
}

}  // namespace

absl::StatusOr<int64_t> PackTrace(const fs::path& json, const fs::path& gzip,
                                  int64_t limit) {
  absl::StatusOr<int64_t> bytes = Pack(json, gzip, limit);
  std::error_code ignored;
  fs::remove(json, ignored);
  return bytes;
}

namespace {

constexpr int64_t kNoLayer = -1;
constexpr char kLayer[] = "layer";
constexpr char kFusedUpdate[] = "aten::_fused_adamw_";

// The step part that work belongs to.
struct Place {
  std::string block;
  int64_t layer = kNoLayer;
  Phase phase = Phase::kForward;
};

// The parts of a mark's name.
struct MarkName {
  std::string block;
  int64_t layer = kNoLayer;
  std::optional<Phase> phase;
};

bool TakeSuffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

MarkName Parse(std::string_view name) {
  MarkName mark;
  name.remove_prefix(std::min(name.size(), sizeof(kMarkPrefix) - 1));
  if (name == "backward") return {"backward", kNoLayer, Phase::kBackward};
  if (TakeSuffix(name, kBackwardSuffix)) mark.phase = Phase::kBackward;
  if (TakeSuffix(name, kAgainSuffix)) mark.phase = Phase::kAgain;
  mark.block = std::string(name);
  const std::string layer = std::string(kLayer) + " ";
  if (name.starts_with(layer)) {
    int64_t number = 0;
    for (const char digit : name.substr(layer.size())) {
      number = number * 10 + (digit - '0');
    }
    mark.layer = number;
    mark.block = kLayer;
  }
  return mark;
}

// Calls that return only when the device has finished the queued work.
bool Waits(EventKind kind, const std::string& name) {
  switch (kind) {
    case EventKind::kOperator:
      return name == "aten::_local_scalar_dense" || name == "aten::nonzero";
    case EventKind::kRuntime:
      return name.find("Synchronize") != std::string::npos;
    default:
      return false;
  }
}

// An event of the host whose end has not been reached.
struct Open {
  const Event* event;
  int64_t end_ns;
  Place place;
  int64_t calls_ns = 0;      // of operators within it, directly or in blocks
  int64_t blocks_ns = 0;     // of blocks within it
  int64_t operators_ns = 0;  // of operators within this block and no other
  bool in_operator = false;  // it is nested in an operator
};

// A call that has ended, and may have queued work of the device.
struct Caller {
  uint32_t name;
  Place place;
};

// Walks the events of the host in order of time.
class Walk {
 public:
  Walk(const Capture& capture, Tally& tally)
      : capture_(capture), tally_(tally) {
    for (const std::string& name : capture.names) marks_.push_back(Parse(name));
  }

  void Run() {
    std::vector<const Event*> events;
    for (const Event& event : capture_.events) {
      if (event.kind != EventKind::kDevice) events.push_back(&event);
    }
    has_device_ = events.size() < capture_.events.size();
    std::stable_sort(
        events.begin(), events.end(), [](const Event* a, const Event* b) {
          return a->start_ns != b->start_ns ? a->start_ns < b->start_ns
                                            : a->end_ns > b->end_ns;
        });
    for (const Event* event : events) Begin(*event);
    while (!open_.empty()) End();
    AddDevice();
  }

 private:
  const std::string& NameOf(const Event& event) const {
    return capture_.names[event.name];
  }
  static bool IsBlock(EventKind kind) {
    return kind == EventKind::kMark || kind == EventKind::kNode;
  }

  void Begin(const Event& event) {
    while (!open_.empty() && open_.back().end_ns <= event.start_ns) End();
    const bool step =
        event.kind == EventKind::kMark && Parsed(event).block == Tally::kStep;
    if (open_.empty() && !step) return;  // outside any step
    Open opened{&event, event.end_ns, {}};
    if (!open_.empty()) {
      const Open& around = open_.back();
      // Clocks of two threads may differ slightly.
      opened.end_ns = std::min(opened.end_ns, around.end_ns);
      opened.place = around.place;
      opened.in_operator =
          around.in_operator || around.event->kind == EventKind::kOperator;
    }
    Locate(event, opened.place);
    CloseGap(opened);
    open_.push_back(std::move(opened));
  }

  const MarkName& Parsed(const Event& event) const {
    return marks_[event.name];
  }

  // Sets the place of `event`, which starts as that of the enclosing event.
  void Locate(const Event& event, Place& place) {
    switch (event.kind) {
      case EventKind::kMark: {
        const MarkName& mark = Parsed(event);
        place.block = mark.block;
        if (mark.layer != kNoLayer) place.layer = mark.layer;
        if (mark.phase) place.phase = *mark.phase;
        Made(event, place);
        return;
      }
      case EventKind::kNode: {
        place.phase = Phase::kBackward;
        const auto made = made_.upper_bound(event.sequence);
        if (event.sequence < 0 || made == made_.begin()) return;
        const Place& of = std::prev(made)->second;
        place.block = of.block;
        place.layer = of.layer;
        return;
      }
      case EventKind::kOperator:
        Made(event, place);
        return;
      default:
        return;
    }
  }

  // The next node of autograd is made at `place`, until a later call.
  void Made(const Event& event, const Place& place) {
    if (event.sequence >= 0) made_[event.sequence] = place;
  }

  bool CoversGap(const Open& opened) const {
    const EventKind kind = opened.event->kind;
    if (kind == EventKind::kOperator || kind == EventKind::kRuntime)
      return true;
    return kind == EventKind::kMark && (opened.place.block == Tally::kData ||
                                        opened.place.block == Tally::kHeld);
  }

  void CloseGap(const Open& opened) {
    if (opened.event->kind == EventKind::kMark &&
        opened.place.block == Tally::kStep) {
      covered_until_ = opened.event->start_ns;
      return;
    }
    if (!CoversGap(opened)) return;
    AddGap(opened.event->start_ns, NameOf(*opened.event), opened.place.block);
    covered_until_ = std::max(covered_until_, opened.end_ns);
  }

  void AddGap(int64_t until, const std::string& before,
              const std::string& block) {
    const int64_t ns = until - covered_until_;
    if (ns <= 0) return;
    GapCost& gaps = tally_.gaps;
    gaps.ns += ns;
    if (ns >= Tally::kShortestGap) ++gaps.count;
    if (ns <= gaps.longest_ns) return;
    gaps.longest_ns = ns;
    gaps.longest_before = before;
    gaps.longest_block = block;
  }

  void End() {
    const Open ended = std::move(open_.back());
    open_.pop_back();
    const int64_t ns = ended.end_ns - ended.event->start_ns;
    switch (ended.event->kind) {
      case EventKind::kOperator:
        EndOperator(ended, ns);
        break;
      case EventKind::kMark:
      case EventKind::kNode:
        EndBlock(ended, ns);
        break;
      default:
        if (!open_.empty()) open_.back().calls_ns += ended.calls_ns;
        break;
    }
    AddWait(ended, ns);
  }

  void EndOperator(const Open& ended, int64_t ns) {
    OperatorCost& cost = tally_.operators[NameOf(*ended.event)];
    const int64_t own = ns - ended.calls_ns;
    ++cost.calls;
    cost.self_ns += own;
    if (has_device_ && ended.event->call != 0) {
      callers_[ended.event->call] = {ended.event->name, ended.place};
    }
    if (open_.empty()) return;
    open_.back().calls_ns += ns;
    // The block gets the part of the operator that no nested block has.
    for (auto around = open_.rbegin(); around != open_.rend(); ++around) {
      if (around->event->kind == EventKind::kOperator) {
        // The outer operator passes on what it lost to blocks.
        around->blocks_ns += ended.blocks_ns;
        return;
      }
      if (!IsBlock(around->event->kind)) continue;
      around->operators_ns += ns - ended.blocks_ns;
      around->blocks_ns += ended.blocks_ns;
      return;
    }
  }

  void EndBlock(const Open& ended, int64_t ns) {
    const int64_t own = ns - ended.blocks_ns;
    if (ended.place.block == Tally::kHeld) {
      held_ns_ += ns;
    } else {
      BlockCost& cost = tally_.blocks[{ended.place.block, ended.place.phase}];
      if (ended.event->kind == EventKind::kMark) ++cost.calls;
      cost.ns += own;
      cost.operator_ns += ended.operators_ns;
      if (ended.place.layer != kNoLayer) {
        tally_.layers[ended.place.layer]
            .ns[static_cast<size_t>(ended.place.phase)] += own;
      }
    }
    if (!open_.empty()) {
      open_.back().blocks_ns += ns;
      open_.back().calls_ns += ended.calls_ns;
      return;
    }
    // The outermost is the step.
    AddGap(ended.end_ns, "", Tally::kStep);
    ++tally_.steps;
    tally_.step_ns += ns - held_ns_;
    window_ns_ += ns - held_ns_;
    held_ns_ = 0;
    if (first_ns_ == 0) first_ns_ = ended.event->start_ns;
    last_ns_ = ended.end_ns;
  }

  void AddWait(const Open& ended, int64_t ns) {
    const std::string& name = NameOf(*ended.event);
    if (!Waits(ended.event->kind, name)) return;
    if (ended.place.block == Tally::kReadBack) return;
    for (const Open& around : open_) {
      const std::string& outer = NameOf(*around.event);
      // A runtime call within an ATen call that waits is the same wait.
      if (Waits(around.event->kind, outer)) return;
      // The CPU's kernel of AdamW also reads the step's number.
      if (outer == kFusedUpdate) return;
    }
    WaitCost& cost = tally_.waits[name];
    ++cost.calls;
    cost.ns += ns;
    ++cost.blocks[ended.place.block];
  }

  void AddDevice() {
    std::vector<const Event*> events;
    for (const Event& event : capture_.events) {
      if (event.kind == EventKind::kDevice) events.push_back(&event);
    }
    if (events.empty() || last_ns_ == 0) return;
    tally_.device_reports_times = true;
    tally_.device_window_ns += window_ns_;
    std::sort(events.begin(), events.end(), [](const Event* a, const Event* b) {
      return a->start_ns < b->start_ns;
    });
    int64_t until = first_ns_;
    for (const Event* event : events) {
      AddToCaller(*event);
      const int64_t end = std::min(event->end_ns, last_ns_);
      const int64_t start = std::max(event->start_ns, until);
      if (end > start) tally_.device_busy_ns += end - start;
      until = std::max(until, end);
    }
  }

  void AddToCaller(const Event& event) {
    const auto caller = callers_.find(event.call);
    if (caller == callers_.end()) return;
    const int64_t ns = event.end_ns - event.start_ns;
    const Place& place = caller->second.place;
    tally_.operators[capture_.names[caller->second.name]].device_ns += ns;
    tally_.blocks[{place.block, place.phase}].device_ns += ns;
    if (place.layer == kNoLayer) return;
    tally_.layers[place.layer].device_ns[static_cast<size_t>(place.phase)] +=
        ns;
  }

  const Capture& capture_;
  Tally& tally_;
  std::vector<MarkName> marks_;    // by name
  std::vector<Open> open_;         // from the step inwards
  std::map<int64_t, Place> made_;  // where nodes were made, by their number
  bool has_device_ = false;
  std::unordered_map<uint64_t, Caller> callers_;  // by Event::call
  int64_t covered_until_ = 0;
  int64_t held_ns_ = 0;                 // in this step
  int64_t first_ns_ = 0, last_ns_ = 0;  // of the steps
  int64_t window_ns_ = 0;               // of all steps, without pauses
};

}  // namespace

const char* NameOf(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      break;
    case Phase::kBackward:
      return "backward";
    case Phase::kAgain:
      return "again";
  }
  return "forward";
}

void Tally::Add(const Capture& capture) {
  events += static_cast<int64_t>(capture.events.size());
  Walk(capture, *this).Run();
}

}  // namespace mpsd::profile
