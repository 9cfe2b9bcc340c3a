// SPDX-License-Identifier: Apache-2.0
// torch and the device, as a worker reported them, and the device's self-test.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "server/planner/judge.h"
#include "server/planner/texts.h"

namespace mpsd::doctor {
namespace {

using runbook::Finding;
using End = WorkerGates::End;

constexpr char kAsk[] =
    "`mpsd-worker --gates` shows it; log/mpsd.log in the state folder may have "
    "more.";

bool IsMac(const Facts& facts) { return !facts.machine.macos_version.empty(); }

const Backend* Find(const Facts& facts, const char* name) {
  const auto& all = facts.worker.backends;
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Backend& b) { return b.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Finding WorkerGate(const Facts& facts) {
  constexpr char kName[] = "torch.worker";
  const WorkerGates& worker = facts.worker;
  if (worker.end == End::kDone) {
    return Pass(kName,
                absl::StrCat("mpsd-worker ", worker.worker_version, " starts"));
  }
  if (worker.end == End::kNotRun) {
    return NotTold(kName, worker.problem.empty() ? "unknown" : worker.problem);
  }
  // A second worker next to a job may lack memory: that is no fault.
  if (!facts.running_job.empty()) {
    return NotTold(kName,
                   absl::StrCat("could not look while job ", facts.running_job,
                                " has the device: ", worker.problem));
  }
  return Fail(kName, worker.problem, kAsk);
}

Finding ProtocolGate(const Facts& facts) {
  constexpr char kName[] = "torch.protocol";
  const WorkerGates& worker = facts.worker;
  if (worker.protocol_version == 0) return NotTold(kName);
  const std::string found = absl::StrCat(
      "mpsd ", facts.mpsd_version, " speaks ", facts.protocol_version,
      ", mpsd-worker ", worker.worker_version, " ", worker.protocol_version);
  if (worker.protocol_version != facts.protocol_version) {
    return Fail(kName, found,
                "They come from different builds: run deploy/install.sh, which "
                "puts both in place, and restart mpsd.");
  }
  if (worker.worker_version != facts.mpsd_version) {
    return Warn(kName, found,
                "They come from different releases: run deploy/install.sh and "
                "restart mpsd.");
  }
  return Pass(kName, found);
}

// major * 1000 + minor; 0 if the text is not a version.
int NumberOf(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  int major = 0, minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &major) ||
      !absl::SimpleAtoi(parts[1], &minor)) {
    return 0;
  }
  return major * 1000 + minor;
}

// "2.15.0+cu130" and "2.15.0" are one release.
std::string Release(const std::string& version) {
  return version.substr(0, version.find('+'));
}

Finding VersionGate(const Facts& facts) {
  constexpr char kName[] = "torch.version";
  constexpr int kOldestOfMac = 2014;
  const WorkerGates& worker = facts.worker;
  if (worker.torch_version.empty()) return NotTold(kName);
  const std::string found = absl::StrCat(
      worker.torch_version, ", built against ", worker.built_against);
  if (!worker.built_against.empty() &&
      Release(worker.torch_version) != Release(worker.built_against)) {
    return Fail(kName, found,
                "mpsd-worker loads another torch than it was made with: look "
                "for a stray library path (the environment below), or build "
                "and install again.");
  }
  const int number = NumberOf(worker.torch_version);
  if (IsMac(facts) && number > 0 && number < kOldestOfMac) {
    return Fail(kName, found,
                "Use torch 2.14 or later: earlier ones give wrong results on "
                "MPS without an error.");
  }
  return Pass(kName, found);
}

// Built and available are reported separately: their remedies differ.
Finding BackendGate(const Backend& backend) {
  const std::string name = absl::StrCat("device.", backend.name);
  if (backend.available) {
    return Pass(name, absl::StrCat("built, available: ", backend.device));
  }
  if (!backend.built) {
    return Fail(name, "this torch is built without it",
                "Run deploy/setup.sh, which installs a torch that has it, and "
                "build again.");
  }
  return Fail(name, absl::StrCat("built, but not available: ", backend.problem),
              "See that mpsd runs where the GPU can be reached, not in a "
              "virtual machine or a container; restart the machine.");
}

// MPS on a Mac, CUDA with an NVIDIA card: other machines need neither.
void JudgeBackends(const Facts& facts, Findings& findings) {
  if (!IsMac(facts) && !facts.machine.nvidia) return;
  const char* name = IsMac(facts) ? "mps" : "cuda";
  const Backend* backend = Find(facts, name);
  findings.push_back(backend == nullptr ? NotTold(absl::StrCat("device.", name))
                                        : BackendGate(*backend));
}

Finding MatmulGate(const Facts& facts) {
  constexpr char kName[] = "torch.matmul";
  if (!facts.worker.matmul) return NotTold(kName);
  const Matmul& matmul = *facts.worker.matmul;
  const std::string found = absl::StrFormat(
      "requested on %s, computed on %s, %s, in %.3f s", matmul.asked_device,
      matmul.result_device, matmul.right ? "right" : "WRONG", matmul.seconds);
  if (!matmul.right) {
    return Fail(kName, found,
                "The device multiplies wrongly: run `mpsd-worker --selftest`, "
                "restart the machine, update macOS and torch.");
  }
  if (matmul.asked_device != matmul.result_device) {
    return Fail(kName, found,
                "The product was computed on another device than requested: "
                "unset PYTORCH_ENABLE_MPS_FALLBACK.");
  }
  const auto& all = facts.worker.backends;
  const bool has_device =
      std::any_of(all.begin(), all.end(),
                  [](const Backend& backend) { return backend.available; });
  return Pass(kName,
              has_device ? found : found + "; jobs train on the processor");
}

Finding SelftestGate(const Facts& facts,
                     const runbook::Thresholds& thresholds) {
  using State = Selftest::State;
  constexpr char kName[] = "device.selftest";
  const Selftest& test = facts.selftest;
  if (test.running) return NotTold(kName, "it runs now");
  switch (test.state) {
    case State::kNotTold:
      return NotTold(kName);
    case State::kSkipped:
      return Warn(kName, "off: mpsd runs with --skip-selftest",
                  "Start mpsd without --skip-selftest, or run `mpsd-worker "
                  "--selftest`: nothing else finds wrong kernels.");
    case State::kNothingToTest:
      return Pass(kName, "no accelerator to test");
    case State::kFailed:
      return Fail(kName, absl::StrCat("failed: ", test.summary),
                  "No job starts. Close what else uses the GPU; restart the "
                  "machine; update macOS or torch. `mpsd-worker --selftest` "
                  "shows the table.");
    case State::kPassed:
      break;
  }
  std::string found = absl::StrCat("passed on ", test.device);
  if (!test.time) return Pass(kName, found);
  const absl::Duration age = facts.time - *test.time;
  const double days = absl::ToDoubleHours(age) / 24;
  const double most = thresholds.Get("doctor.selftest_age");
  absl::StrAppend(&found, ", ", AgeText(age), " ago");
  if (days <= most) return With(Pass(kName, found), days, most, "days");
  return With(Warn(kName, found, "Run it again: `mpsctl doctor --deep`."), days,
              most, "days");
}

}  // namespace

void JudgeTorch(const Facts& facts, const runbook::Thresholds& thresholds,
                Findings& findings) {
  findings.push_back(WorkerGate(facts));
  findings.push_back(ProtocolGate(facts));
  findings.push_back(VersionGate(facts));
  JudgeBackends(facts, findings);
  findings.push_back(MatmulGate(facts));
  findings.push_back(SelftestGate(facts, thresholds));
}

}  // namespace mpsd::doctor
