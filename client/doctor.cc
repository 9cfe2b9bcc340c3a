// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/own_gates.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

constexpr int kRoundTrips = 5;
// For Diagnose: a worker is started, a disk measured, others may be before us.
constexpr std::chrono::seconds kPatience(90);
constexpr absl::Duration kPoll = absl::Seconds(2);
// The daemon ends a self-test that takes longer.
constexpr absl::Duration kLongestTest = absl::Minutes(20);

// doctor's codes are its own, for scripts that ask nothing but whether the
// machine is well: a daemon that nobody reaches is a failure like others.
ExitCode CodeOf(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_FAIL:
      return static_cast<ExitCode>(2);
    case v1::VERDICT_WARN:
      return static_cast<ExitCode>(1);
    default:
      return ExitCode::kOk;
  }
}

std::string WhyNot(const Console& console, const grpc::Status& status) {
  if (const absl::Status s = console.daemon.tunnel_status(); !s.ok()) {
    return std::string(s.message());
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return "mpsd did not answer in time";
  }
  return status.error_message().empty() ? "the call failed"
                                        : status.error_message();
}

// The median time of some calls of Info.
grpc::Status MeasureRoundTrip(const Console& console, v1::InfoResponse* info,
                              std::vector<absl::Duration>* times) {
  const base::Clock& clock = *console.terminal.clock;
  // The first call connects, and does not count.
  for (int i = 0; i <= kRoundTrips; ++i) {
    grpc::ClientContext context;
    SetDeadline(context);
    const absl::Duration start = clock.Monotonic();
    const grpc::Status status =
        console.daemon.daemon().Info(&context, v1::InfoRequest(), info);
    if (!status.ok()) return status;
    if (i > 0) times->push_back(clock.Monotonic() - start);
  }
  return grpc::Status::OK;
}

grpc::Status Ask(const Console& console, const v1::DiagnoseRequest& request,
                 v1::Diagnosis* diagnosis) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  return console.daemon.runbook().Diagnose(&context, request, diagnosis);
}

// Asks again until no self-test runs.
grpc::Status AwaitSelftest(const Console& console, v1::DiagnoseRequest request,
                           v1::Diagnosis* diagnosis) {
  request.set_deep(false);
  const base::Clock& clock = *console.terminal.clock;
  const absl::Duration end = clock.Monotonic() + kLongestTest;
  bool said = !console.terminal.is_tty;
  while (diagnosis->selftest().running() && clock.Monotonic() < end) {
    if (!std::exchange(said, true)) {
      console.err << "The self-test of the device runs; it may take minutes.\n"
                  << std::flush;
    }
    console.terminal.sleep(kPoll);
    diagnosis->Clear();
    const grpc::Status status = Ask(console, request, diagnosis);
    if (!status.ok()) return status;
  }
  return grpc::Status::OK;
}

// Puts the client's gates before the daemon's, and judges anew.
void Merge(const std::vector<v1::Finding>& own, v1::Diagnosis* diagnosis) {
  const v1::Diagnosis theirs = *diagnosis;
  diagnosis->clear_findings();
  v1::Verdict worst = theirs.verdict();
  for (const v1::Finding& finding : own) {
    *diagnosis->add_findings() = finding;
    worst = std::max(worst, finding.verdict());
  }
  diagnosis->mutable_findings()->MergeFrom(theirs.findings());
  diagnosis->set_verdict(worst);
}

std::string VerdictText(v1::Verdict verdict) {
  return verdict == v1::VERDICT_UNSPECIFIED ? "not told" : VerdictName(verdict);
}

void PrintEnvironment(const v1::Diagnosis& diagnosis, std::ostream& out) {
  Table table({"VARIABLE", "SERVICE", "MPSD", "FOR WORKERS", "WORKER"});
  bool any = false;
  for (const v1::EnvironmentVariable& v : diagnosis.environment()) {
    if (!v.differs()) continue;
    any = true;
    table.Add({v.name(), v.has_service() ? v.service() : "-",
               v.has_daemon() ? v.daemon() : "-",
               v.has_expected() ? v.expected() : "-",
               v.has_worker() ? v.worker() : "-"});
  }
  if (!any) return;
  out << "\nThe environment where it drifted:\n";
  table.Print(out, 0);
}

std::string Summary(const v1::Diagnosis& diagnosis) {
  std::map<v1::Verdict, int> counts;
  for (const v1::Finding& finding : diagnosis.findings()) {
    ++counts[finding.verdict()];
  }
  return absl::StrCat(
      VerdictText(diagnosis.verdict()), ": ", counts[v1::VERDICT_PASS], " ok, ",
      counts[v1::VERDICT_WARN], " warn, ", counts[v1::VERDICT_FAIL], " fail, ",
      counts[v1::VERDICT_UNSPECIFIED], " not told");
}

// Asks the daemon how its machine is, waits for the self-test where `deep` has
// started it, and adds the client's own gates before the daemon's. Prints
// errors and, on a terminal, what it waits for. Where the daemon gave no
// answer, returns the error's code and fills in the client's gates all the
// same; leaves *diagnosis empty where the thresholds are wrong.
ExitCode Diagnose(const Console& console, bool deep,
                  const ThresholdArguments& arguments,
                  v1::Diagnosis* diagnosis) {
  diagnosis->Clear();
  v1::DiagnoseRequest request;
  request.set_deep(deep);
  absl::Status added = AddThresholds(arguments, request.mutable_thresholds());
  absl::StatusOr<runbook::Thresholds> thresholds = runbook::Thresholds::FromMap(
      {request.thresholds().begin(), request.thresholds().end()});
  if (added.ok()) added = thresholds.status();
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");

  std::vector<v1::Finding> own;
  const std::string& target = console.daemon.address().target;
  const auto fail = [&](const grpc::Status& status) {
    own.insert(own.begin(), ReachableGate(target, WhyNot(console, status)));
    diagnosis->Clear();
    Merge(own, diagnosis);
    return console.Fail(status);
  };
  v1::InfoResponse info;
  std::vector<absl::Duration> times;
  grpc::Status status = MeasureRoundTrip(console, &info, &times);
  if (!status.ok()) return fail(status);
  own.push_back(VersionGate(MPSD_VERSION, info));
  own.push_back(RoundTripGate(times, *thresholds));
  grpc::ClientContext context;
  SetDeadline(context);
  v1::WhoAmIResponse who;
  const base::Clock& clock = *console.terminal.clock;
  status = console.daemon.access().WhoAmI(&context, {}, &who);
  if (!status.ok()) return fail(status);
  const auto gate = CertificateGate(who, clock.Now(), *thresholds);
  if (gate) own.push_back(*gate);
  status = Ask(console, request, diagnosis);
  const absl::Time arrived = clock.Now();
  if (!status.ok()) return fail(status);
  if (diagnosis->has_time()) {
    own.push_back(ClockGate(ToTime(diagnosis->time()), arrived, Median(times),
                            *thresholds));
  }
  if (deep) status = AwaitSelftest(console, request, diagnosis);
  if (!status.ok()) return fail(status);
  own.insert(own.begin(), ReachableGate(target, ""));
  Merge(own, diagnosis);
  return ExitCode::kOk;
}

void PrintDiagnosis(const v1::Diagnosis& diagnosis, std::ostream& out) {
  Table table({"VERDICT", "GATE", "FOUND"});
  bool advised = false;
  for (const v1::Finding& finding : diagnosis.findings()) {
    advised = advised || !finding.advice().empty();
    table.Add(
        {VerdictText(finding.verdict()), finding.name(), finding.found()});
  }
  table.Print(out, 0);
  if (advised) out << "\nWhat to do:\n";
  for (const v1::Finding& finding : diagnosis.findings()) {
    if (finding.advice().empty()) continue;
    out << Printable(finding.name()) << ": " << Printable(finding.advice())
        << '\n';
  }
  PrintEnvironment(diagnosis, out);
  out << '\n' << Summary(diagnosis) << '\n';
}

ExitCode Doctor(const Console& console, bool deep,
                const ThresholdArguments& thresholds) {
  v1::Diagnosis diagnosis;
  const ExitCode asked = Diagnose(console, deep, thresholds, &diagnosis);
  // The thresholds made no sense: nothing was looked at.
  if (asked != ExitCode::kOk && diagnosis.findings().empty()) return asked;
  if (console.json) {
    console.PrintJson(diagnosis);
  } else {
    PrintDiagnosis(diagnosis, console.out);
  }
  return CodeOf(diagnosis.verdict());
}

}  // namespace

void AddDoctor(Command& app, Action* action) {
  Command* verb = app.add_subcommand(
      "doctor", "Look for what is wrong with the daemon's machine");
  struct Arguments {
    bool deep = false;
    ThresholdArguments thresholds;
  };
  auto arguments = std::make_shared<Arguments>();
  verb->add_flag("--deep", arguments->deep,
                 "Measure the disk and run the device's self-test, too");
  DeclareThresholds(*verb, &arguments->thresholds);
  verb->footer(
      "Exit codes: 0 all is well, 1 there are warnings, 2 something is wrong, "
      "or mpsd cannot be reached.");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Doctor(console, arguments->deep, arguments->thresholds);
    };
  });
}

}  // namespace mpsd::client
