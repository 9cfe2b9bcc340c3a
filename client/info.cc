// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iomanip>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/app.h"
#include "client/connection.h"
#include "client/study.h"
#include "client/text/format.h"
#include "core/base/units.h"

namespace mpsd::client {
namespace {

void InfoField(std::ostream& out, const char* name, const std::string& value) {
  out << std::left << std::setw(15) << name
      << (value.empty() ? "-" : PrintableLines(value)) << '\n';
}

std::string DeviceText(const v1::InfoResponse& info) {
  if (info.device().empty()) return "unknown until a worker has run";
  std::string text = info.device();
  const v1::DeviceMemory& memory = info.memory();
  if (memory.has_current_allocated_bytes()) {
    absl::StrAppend(&text, ", ",
                    base::BytesText(memory.current_allocated_bytes()),
                    " allocated");
  }
  if (memory.has_recommended_max_bytes()) {
    absl::StrAppend(&text, ", ",
                    base::BytesText(memory.recommended_max_bytes()),
                    " recommended at most");
  }
  return text;
}

std::string JobsText(const v1::InfoResponse& info) {
  std::string text = absl::StrCat(info.running_jobs(), " running, ",
                                  info.queued_jobs(), " queued");
  if (!info.running_job_id().empty()) {
    absl::StrAppend(&text, "; now ", info.running_job_id());
  }
  return text;
}

std::string PartText(const std::string& what, const std::string& has,
                     const std::string& may) {
  return absl::StrCat(what, " ", has, may.empty() ? "" : " of ", may);
}

std::string PriorityText(const v1::UserUsage& you) {
  const auto end = [](bool bounded, int32_t value) {
    return bounded ? absl::StrCat(value) : std::string("any");
  };
  return absl::StrCat("priority ",
                      end(you.has_min_priority(), you.min_priority()), " to ",
                      end(you.has_max_priority(), you.max_priority()));
}

// What the caller uses, and of which limit.
std::string UsageText(const v1::UserUsage& you) {
  std::vector<std::string> parts = {
      PartText(
          "queued", absl::StrCat(you.queued_jobs()),
          you.has_max_queued_jobs() ? absl::StrCat(you.max_queued_jobs()) : ""),
      PartText("uploads", base::BytesText(you.upload_bytes()),
               you.has_max_upload_bytes()
                   ? base::BytesText(you.max_upload_bytes())
                   : ""),
      PartText("results", base::BytesText(you.result_bytes()),
               you.has_max_result_bytes()
                   ? base::BytesText(you.max_result_bytes())
                   : "")};
  if (you.has_min_priority() || you.has_max_priority()) {
    parts.push_back(PriorityText(you));
  }
  return absl::StrJoin(parts, ", ");
}

std::string PageText(const std::string& address) {
  return absl::StartsWith(address, "unix:")
             ? address
             : absl::StrCat("http://", address, "/");
}

// "18.2 MiB of a budget of 1.1 TiB, "; empty until it was measured.
std::string DaemonStateText(const v1::InfoResponse& info) {
  if (info.state_bytes() == 0) return "";
  if (info.state_budget_bytes() == 0) {
    return absl::StrCat(base::BytesText(info.state_bytes()), ", ");
  }
  return absl::StrCat(base::BytesText(info.state_bytes()), " of a budget of ",
                      base::BytesText(info.state_budget_bytes()), ", ");
}

std::string MetricsAddressText(const v1::InfoResponse& info) {
  const std::string& address = info.metrics_address();
  if (address.empty()) return "off";
  if (absl::StartsWith(address, "unix:")) return address;
  return absl::StrCat(info.metrics_tls() ? "https://" : "http://", address,
                      "/metrics");
}

void PrintIdentity(const v1::WhoAmIResponse& who, const Console& console) {
  const absl::Time now = console.terminal.clock->Now();
  InfoField(console.out, "you", IdentityText(who, now));
  if (who.has_certificate_expire_time()) {
    InfoField(console.out, "certificate",
              CertificateText(ToTime(who.certificate_expire_time()), now));
  }
}

void PrintInfo(const v1::InfoResponse& info, const v1::WhoAmIResponse& who,
               const Console& console) {
  std::ostream& out = console.out;
  const absl::Duration up =
      console.terminal.clock->Now() - ToTime(info.start_time());
  InfoField(
      out, "mpsd",
      absl::StrCat(info.version(), " at ", console.daemon.address().target,
                   ", up ", Seconds(up)));
  PrintIdentity(who, console);
  if (!info.worker_version().empty()) {
    InfoField(out, "worker", info.worker_version());
    InfoField(out, "torch", info.torch_version());
  }
  InfoField(out, "device", DeviceText(info));
  InfoField(out, "platform", info.platform());
  if (const std::string host = HostText(info.host()); !host.empty()) {
    InfoField(out, "machine", host);
  }
  InfoField(out, "jobs", JobsText(info));
  if (info.has_you()) InfoField(out, "usage", UsageText(info.you()));
  if (!info.hold().empty()) {
    InfoField(out, "jobs wait",
              info.hold_reason().empty()
                  ? info.hold()
                  : absl::StrCat(info.hold_reason(), ": ", info.hold()));
  }
  if (info.has_pause()) {
    InfoField(out, "paused", PauseReasonText(info.pause()));
  }
  InfoField(out, "state folder",
            absl::StrCat(info.state_dir(), ", ", DaemonStateText(info),
                         base::BytesText(info.disk_free_bytes()), " free"));
  for (const std::string& address : info.api_addresses()) {
    const bool tls = info.api_tls() && !absl::StartsWith(address, "unix:");
    InfoField(out, "API", absl::StrCat(address, tls ? ", with TLS" : ""));
  }
  InfoField(out, "metrics", MetricsAddressText(info));
  if (!info.page_address().empty()) {
    InfoField(out, "web page", PageText(info.page_address()));
  }
  InfoField(out, "schema", absl::StrCat(info.schema_version()));
  InfoField(out, "protocol", absl::StrCat(info.protocol_version()));
}

ExitCode Info(const Console& console) {
  v1::InfoRequest request;
  request.set_you(true);
  v1::InfoResponse info;
  grpc::Status status = console.daemon.Call(&DaemonStub::Info, request, &info);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(info);
    return ExitCode::kOk;
  }
  v1::WhoAmIResponse who;
  status = console.daemon.Call(&AccessStub::WhoAmI, {}, &who);
  if (!status.ok()) return console.Fail(status);
  PrintInfo(info, who, console);
  return ExitCode::kOk;
}

// --- Doctor ------------------------------------------------------------------

constexpr int kRoundTrips = 5;
// For Diagnose: it starts a worker, measures a disk, and may wait for others.
constexpr absl::Duration kDiagnosisPatience = absl::Seconds(90);
constexpr absl::Duration kPoll = absl::Seconds(2);
// The daemon ends a self-test that takes longer.
constexpr absl::Duration kLongestTest = absl::Minutes(20);

// doctor has its own codes, for scripts that only ask whether the machine is
// healthy: an unreachable daemon is a failure like others.
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
                                        : WhyNoAnswer(console.daemon, status);
}

// The median time of several calls of Info.
grpc::Status MeasureRoundTrip(const Console& console, v1::InfoResponse* info,
                              std::vector<absl::Duration>* times) {
  const base::Clock& clock = *console.terminal.clock;
  // The first call connects, and does not count.
  for (int i = 0; i <= kRoundTrips; ++i) {
    const absl::Duration start = clock.Monotonic();
    const grpc::Status status =
        console.daemon.Call(&DaemonStub::Info, {}, info);
    if (!status.ok()) return status;
    if (i > 0) times->push_back(clock.Monotonic() - start);
  }
  return grpc::Status::OK;
}

// Polls until no self-test runs.
grpc::Status AwaitSelftest(const Console& console, v1::DiagnoseRequest request,
                           v1::Diagnosis* diagnosis) {
  request.set_deep(false);
  const base::Clock& clock = *console.terminal.clock;
  const absl::Duration end = clock.Monotonic() + kLongestTest;
  bool said = !console.terminal.is_tty;
  while (diagnosis->selftest_running() && clock.Monotonic() < end) {
    if (!std::exchange(said, true)) {
      console.err << "The device's self-test is running; it may take minutes.\n"
                  << std::flush;
    }
    console.terminal.sleep(kPoll);
    diagnosis->Clear();
    const grpc::Status status = console.daemon.Call(
        &RunbookStub::Diagnose, request, diagnosis, kDiagnosisPatience);
    if (!status.ok()) return status;
  }
  return grpc::Status::OK;
}

// Puts the client's findings before the daemon's, and updates the verdict.
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
  return verdict == v1::VERDICT_UNSPECIFIED ? "unknown" : VerdictName(verdict);
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
  out << "\nEnvironment variables that differ:\n";
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
      counts[v1::VERDICT_UNSPECIFIED], " unknown");
}

// Gets the daemon's diagnosis of its machine, waits for the self-test if `deep`
// has started it, and puts the client's own findings first. Prints errors and,
// on a terminal, what it waits for. If the daemon gave no answer, returns the
// error's code and still fills in the client's findings; leaves *diagnosis
// empty if the thresholds are wrong.
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
  if (!added.ok()) return console.BadInput(added);

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
  v1::WhoAmIResponse who;
  const base::Clock& clock = *console.terminal.clock;
  status = console.daemon.Call(&AccessStub::WhoAmI, {}, &who);
  if (!status.ok()) return fail(status);
  const auto gate = CertificateGate(who, clock.Now(), *thresholds);
  if (gate) own.push_back(*gate);
  status = console.daemon.Call(&RunbookStub::Diagnose, request, diagnosis,
                               kDiagnosisPatience);
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
  PrintAdvice(diagnosis.findings(), out);
  PrintEnvironment(diagnosis, out);
  out << '\n' << Summary(diagnosis) << '\n';
}

struct DoctorOptions {
  bool deep = false;
  ThresholdArguments thresholds;
};

ExitCode Doctor(const DoctorOptions& options, const Console& console) {
  v1::Diagnosis diagnosis;
  const ExitCode asked =
      Diagnose(console, options.deep, options.thresholds, &diagnosis);
  // The thresholds were invalid: nothing was checked.
  if (asked != ExitCode::kOk && diagnosis.findings().empty()) return asked;
  console.Show(diagnosis, [&](const v1::Diagnosis&) {
    PrintDiagnosis(diagnosis, console.out);
  });
  return CodeOf(diagnosis.verdict());
}

void DeclareDoctor(Command& verb, DoctorOptions& options) {
  verb.add_flag("--deep", options.deep,
                "Also measure the disk and run the device's self-test");
  DeclareThresholds(verb, &options.thresholds);
  verb.footer(
      "Exit codes: 0 all is well, 1 there are warnings, 2 something is wrong, "
      "or mpsd cannot be reached.");
}

}  // namespace

std::vector<Verb> InfoVerbs() {
  return {
      {"info", "Show the daemon and its device", TakesNothing(Info),
       "mpsctl info\n"
       "mpsctl --server ssh://studio info"},
      {"doctor", "Check the daemon's machine for problems",
       Takes(DeclareDoctor, Doctor),
       "mpsctl doctor --deep --threshold doctor.disk_free=100e9"},
  };
}

}  // namespace mpsd::client
