// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUNBOOK_STEPS_H_
#define MPSD_CLIENT_RUNBOOK_STEPS_H_

#include <string>
#include <vector>

#include "mpsd/v1/runbook.pb.h"

// What the page "fit to promise" takes from each step's typed result.
namespace mpsd::client {

// The doctor's gates that prove the architecture and the device.
inline constexpr char kArchitectureGate[] = "machine.architecture";
inline constexpr char kDeviceGate[] = "torch.matmul";

// A plan's and a study's figures in sentences.
std::vector<std::string> PlanLines(const v1::Plan& plan);
std::vector<std::string> StudyLines(const v1::StudyResult& result);

struct StepTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // as many cells each
};
// What a study measured at each of its points: the sweep's batches, the knee
// among them named. Without rows for other studies.
StepTable StudyTable(const v1::StudyResult& result);
// A study's chart as SVG; empty for a study that has none.
std::string StudyChart(const v1::StudyResult& result);

// Whether the sweep measured two batches or more, and smoke two epochs or more.
bool HasBatches(const v1::Runbook& runbook);
bool HasMemoryCurve(const v1::Runbook& runbook);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUNBOOK_STEPS_H_
