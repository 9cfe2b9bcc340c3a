// SPDX-License-Identifier: Apache-2.0
#include "client/profile_text.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

constexpr int kOperatorsShown = 12;       // --json has all
constexpr double kSmallestShare = 0.001;  // of blocks that are shown

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.4g ms", seconds * 1000);
}
std::string Percent(double part) {
  return absl::StrFormat("%.1f%%", part * 100);
}
std::string Calls(double calls) { return absl::StrFormat("%.4g", calls); }

void PrintSteps(const v1::ProfileResult& profile, std::ostream& out) {
  const v1::ProfileSteps& steps = profile.steps();
  out << profile.device() << ", gradients: " << Printable(profile.gradients())
      << "; " << steps.warm_up() << " steps of warm-up, " << steps.plain()
      << " plain, " << steps.profiled()
      << " under the profiler, which makes a step "
      << Percent(steps.overhead_ratio()) << " longer\n";
  Table table({"A STEP", "TIME", ""});
  table.Add({"the first", Milliseconds(steps.first_seconds()), ""});
  if (steps.has_warm_up_seconds()) {
    table.Add({"of the warm-up", Milliseconds(steps.warm_up_seconds()), ""});
  }
  table.Add(
      {"steady", Milliseconds(steps.steady_seconds()),
       absl::StrCat("waits for data for ", Percent(steps.data_wait_share()))});
  if (steps.has_first_epoch_seconds() && steps.has_later_epochs_seconds()) {
    table.Add(
        {"steady, first epoch", Milliseconds(steps.first_epoch_seconds()), ""});
    table.Add({"steady, later epochs",
               Milliseconds(steps.later_epochs_seconds()), ""});
  }
  for (const v1::ProfileCapture& capture : profile.captures()) {
    if (capture.name() == "step") continue;
    table.Add({absl::StrCat(capture.name(), " alone"),
               Milliseconds(capture.seconds()),
               absl::StrCat("over ", capture.steps(), " steps")});
  }
  table.Print(out, 0);
}

void PrintBlocks(const v1::ProfileResult& profile, std::ostream& out) {
  Table table(
      {"BLOCK", "PHASE", "CALLS", "A STEP", "SHARE", "IN OPERATORS", "DEVICE"});
  for (const v1::ProfileBlock& block : profile.blocks()) {
    if (block.share() < kSmallestShare) continue;
    table.Add({block.name(), block.phase(), Calls(block.calls()),
               Milliseconds(block.seconds()), Percent(block.share()),
               Milliseconds(block.operator_seconds()),
               block.has_device_seconds() ? Milliseconds(block.device_seconds())
                                          : "-"});
  }
  table.Print(out, 0);
}

void PrintOperators(const v1::ProfileResult& profile, std::ostream& out) {
  Table table({"OPERATOR", "CALLS", "OWN TIME", "SHARE", "DEVICE"});
  const int shown = std::min(profile.operators_size(), kOperatorsShown);
  for (int i = 0; i < shown; ++i) {
    const v1::ProfileOperator& op = profile.operators(i);
    table.Add(
        {op.name(), Calls(op.calls()), Milliseconds(op.self_seconds()),
         Percent(op.share()),
         op.has_device_seconds() ? Milliseconds(op.device_seconds()) : "-"});
  }
  table.Print(out, 0);
}

void PrintWaits(const v1::ProfileResult& profile, std::ostream& out) {
  const v1::ProfileGaps& gaps = profile.gaps();
  out << "Between operators: " << Milliseconds(gaps.seconds()) << " a step ("
      << Percent(gaps.share()) << "); the longest "
      << Milliseconds(gaps.longest_seconds()) << ", in '"
      << Printable(gaps.longest_block()) << "'\n";
  if (gaps.has_device_idle_ratio()) {
    out << "The device idles for " << Percent(gaps.device_idle_ratio())
        << " of the time.\n";
  }
  for (const v1::ProfileWait& wait : profile.waits()) {
    out << "The host waits in " << Printable(wait.name()) << ": "
        << Calls(wait.calls()) << " a step, " << Milliseconds(wait.seconds())
        << (wait.own() ? "; the one that ends a step"
                       : absl::StrCat("; in '", Printable(wait.block()), "'"))
        << '\n';
  }
  for (const auto& [name, count] : profile.cpu_fallback_ops()) {
    out << "On the CPU: " << Printable(name) << ", " << count << " times\n";
  }
}

void PrintMemory(const v1::ProfileMemory& memory, std::ostream& out) {
  std::string text;
  const auto add = [&text](const char* what, int64_t bytes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", what, " ", Bytes(bytes));
  };
  if (memory.has_peak_allocated_bytes()) {
    add("tensors", memory.peak_allocated_bytes());
  }
  if (memory.has_peak_driver_bytes()) {
    add("driver", memory.peak_driver_bytes());
  }
  if (memory.has_recommended_max_bytes()) {
    add("of at most", memory.recommended_max_bytes());
  }
  if (memory.has_peak_footprint_bytes()) {
    add("process", memory.peak_footprint_bytes());
  }
  if (!text.empty()) out << "Memory at its peak: " << text << '\n';
}

}  // namespace

void PrintProfile(const v1::StudyResult& result, const Console& console) {
  const v1::ProfileResult& profile = result.profile();
  std::ostream& out = console.out;
  PrintSteps(profile, out);
  out << '\n';
  PrintBlocks(profile, out);
  out << '\n';
  PrintOperators(profile, out);
  out << '\n';
  PrintWaits(profile, out);
  PrintMemory(profile.memory(), out);
  for (const std::string& text : profile.not_told()) {
    out << "Not told: " << Printable(text) << '\n';
  }
  if (profile.has_trace()) {
    out << "Trace: " << Printable(profile.trace().file()) << ", "
        << Bytes(profile.trace().size_bytes()) << ", the last "
        << profile.trace().steps() << " steps, for Perfetto: `mpsctl download "
        << result.job_id() << " --output DIR`\n";
  }
  out << '\n';
}

}  // namespace mpsd::client
