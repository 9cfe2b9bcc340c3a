// SPDX-License-Identifier: Apache-2.0
#include "client/probe.h"

#include "absl/strings/str_format.h"
#include "client/text/format.h"

namespace mpsd::client {

void PrintProbe(const v1::StudyResult& result, const Console& console) {
  if (!result.has_probe()) return;
  const v1::ProbeResult& probe = result.probe();
  std::ostream& out = console.out;
  out << "Device     " << Printable(probe.device()) << ", "
      << Printable(probe.device_description()) << '\n';
  out << "Rows       " << probe.step_rows() << " a step, "
      << probe.micro_batch_rows() << " at a time, the longest has "
      << probe.longest_row_tokens() << " tokens\n";
  if (probe.steps() > 0) {
    out << absl::StrFormat(
        "Step       %.3g s (%.3g to %.3g s), %s tokens/s, over %d steps\n",
        probe.step_seconds().median(), probe.step_seconds().p10(),
        probe.step_seconds().p90(), Count(probe.tokens_per_second()),
        probe.steps());
  }
  out << "Memory     " << Bytes(probe.peak_bytes()) << " by the "
      << Printable(probe.peak_from()) << ", estimated "
      << Bytes(probe.estimate().total_bytes()) << ", "
      << Bytes(probe.memory_limit_bytes()) << " may be held\n";
}

}  // namespace mpsd::client
