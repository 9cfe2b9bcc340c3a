// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::profile {

// How the names of marks begin, and how they end for work outside the forward
// (block_mark.h).
inline constexpr char kMarkPrefix[] = "mpsd::";
inline constexpr char kBackwardSuffix[] = " backward";
inline constexpr char kAgainSuffix[] = " again";

enum class EventKind : uint8_t {
  kOperator,  // a call of ATen
  kMark,      // a BlockMark
  kNode,      // a node of autograd's backward
  kRuntime,   // a call of the device's runtime
  kDevice,    // a kernel or a copy on the device
};

struct Event {
  EventKind kind = EventKind::kOperator;
  uint32_t name = 0;                 // index of Capture::names
  int64_t start_ns = 0, end_ns = 0;  // of one clock
  // The number of autograd's next node when the call began, or a node's own;
  // -1: none.
  int64_t sequence = -1;
  // A call's number, and on the device that of the call that queued the work;
  // 0: unknown.
  uint64_t call = 0;
};

// What was recorded of some steps, in any order. Host events are those of the
// training thread, and of autograd's threads while the training thread waits
// for them.
struct Capture {
  std::vector<std::string> names;
  std::vector<Event> events;
};

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

// The largest trace that is kept, bytes of JSON: browsers fail beyond this.
inline constexpr int64_t kTraceBytes = int64_t{256} << 20;

// Compresses the trace at `json` into `gzip`, which appears complete or not at
// all, and always removes `json`. Drops the path that Kineto writes after the
// events ("traceName"). Returns the bytes of `gzip`. ResourceExhausted for a
// trace over `limit` bytes, Internal for one that does not end as JSON does
// (the disk was full when torch wrote it), else errors of the file system.
absl::StatusOr<int64_t> PackTrace(const std::filesystem::path& json,
                                  const std::filesystem::path& gzip,
                                  int64_t limit = kTraceBytes);

enum class Phase : uint8_t { kForward, kBackward, kAgain };
const char* NameOf(Phase phase);  // "forward", "backward", "again"

// Sums over the steps of all captures; times in nanoseconds.
struct OperatorCost {
  int64_t calls = 0;
  int64_t self_ns = 0;    // of the host, without nested calls
  int64_t device_ns = 0;  // of the work that it queued itself
};
struct BlockCost {
  int64_t calls = 0;        // marks only, not autograd's nodes
  int64_t ns = 0;           // without nested blocks
  int64_t operator_ns = 0;  // the part spent in operators
  int64_t device_ns = 0;
};
struct LayerCost {
  int64_t ns[3] = {}, device_ns[3] = {};  // by Phase
};
struct WaitCost {
  int64_t calls = 0, ns = 0;
  std::map<std::string, int64_t> blocks = {};  // calls by block
};
struct GapCost {
  int64_t count = 0;  // of kShortestGap or more
  int64_t ns = 0;     // all
  int64_t longest_ns = 0;
  std::string longest_before, longest_block;
};

// Where the time of steps goes. A step is a mark "mpsd::step"; events outside
// steps are ignored. Marks of blocks are inside it; "mpsd::layer N" says which
// layer the blocks inside it belong to; a node of autograd's backward belongs
// to the block and layer that made the node. "mpsd::data" is the wait for data,
// "mpsd::held" a pause, which does not count as part of the step.
struct Tally {
  static constexpr int64_t kShortestGap = 10'000;  // ns
  // Names of blocks with a special meaning.
  static constexpr char kStep[] = "step";
  static constexpr char kData[] = "data";
  static constexpr char kHeld[] = "held";
  static constexpr char kReadBack[] = "read back";

  int64_t steps = 0;
  int64_t step_ns = 0;  // without pauses
  int64_t events = 0;
  std::map<std::string, OperatorCost> operators;
  // kStep has the step's own time, outside all of its blocks.
  std::map<std::pair<std::string, Phase>, BlockCost> blocks;
  std::map<int64_t, LayerCost> layers;
  // Calls that wait for the device, outside kReadBack.
  std::map<std::string, WaitCost> waits;
  GapCost gaps;
  // Whether any device reported its work; if so, its busy time and the
  // time of the steps.
  bool device_reports_times = false;
  int64_t device_busy_ns = 0, device_window_ns = 0;

  // Adds the steps of `capture`.
  void Add(const Capture& capture);
};

}  // namespace mpsd::profile
