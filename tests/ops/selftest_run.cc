// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/selftest_run.h"

#include "core/device/device.h"
#include "core/selftest/selftest.h"
#include "tests/core/selftest/passes.h"
#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

std::vector<RunCheck> RunAll() {
  InstallFakeMps();
  const auto device = *device::OpenMps();
  std::vector<RunCheck> runs;
  for (selftest::Check& check :
       selftest::AllChecks(selftest::Small(), *device)) {
    Recorder recorder;
    const selftest::Report report = selftest::RunChecks(*device, {check});
    recorder.Close("");
    const RecordedPart& part = recorder.parts()[0];
    RunCheck run{std::move(check), part.operators, part.signatures,
                 part.kernels,     report.seconds, ""};
    if (!report.passed()) run.failure = selftest::TableRow(report.results[0]);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

const std::vector<RunCheck>& SelftestRun() {
  static const auto* runs = new std::vector<RunCheck>(RunAll());
  return *runs;
}

const std::set<std::string>& RunBySelftest() {
  static const auto* all = [] {
    auto* names = new std::set<std::string>;
    for (const RunCheck& run : SelftestRun()) {
      names->insert(run.operators.begin(), run.operators.end());
    }
    return names;
  }();
  return *all;
}

}  // namespace mpsd::ops
