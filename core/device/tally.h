// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DEVICE_TALLY_H_
#define MPSD_CORE_DEVICE_TALLY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/device/capture.h"

namespace mpsd::profile {

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
  bool device_told = false;
  int64_t device_busy_ns = 0, device_window_ns = 0;

  // Adds the steps of `capture`.
  void Add(const Capture& capture);
};

}  // namespace mpsd::profile

#endif  // MPSD_CORE_DEVICE_TALLY_H_
