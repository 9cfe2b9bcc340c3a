// SPDX-License-Identifier: Apache-2.0
#include <iomanip>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text/format.h"
#include "client/text/host_text.h"
#include "client/text/identity_text.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

void Field(std::ostream& out, const char* name, const std::string& value) {
  out << std::left << std::setw(15) << name
      << (value.empty() ? "-" : PrintableLines(value)) << '\n';
}

std::string DeviceText(const v1::InfoResponse& info) {
  if (info.device().empty()) return "not known before a worker ran";
  std::string text = info.device();
  const v1::DeviceMemory& memory = info.memory();
  if (memory.has_current_allocated_bytes()) {
    absl::StrAppend(&text, ", ", Bytes(memory.current_allocated_bytes()),
                    " allocated");
  }
  if (memory.has_recommended_max_bytes()) {
    absl::StrAppend(&text, ", ", Bytes(memory.recommended_max_bytes()),
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

// What the caller has, and of how much.
std::string UsageText(const v1::UserUsage& you) {
  std::vector<std::string> parts = {
      PartText(
          "queued", absl::StrCat(you.queued_jobs()),
          you.has_max_queued_jobs() ? absl::StrCat(you.max_queued_jobs()) : ""),
      PartText("uploads", Bytes(you.upload_bytes()),
               you.has_max_upload_bytes() ? Bytes(you.max_upload_bytes()) : ""),
      PartText(
          "results", Bytes(you.result_bytes()),
          you.has_max_result_bytes() ? Bytes(you.max_result_bytes()) : "")};
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

// "18.2 MB of a budget of 1.1 TB, "; empty before it was measured.
std::string StateText(const v1::InfoResponse& info) {
  if (info.state_bytes() == 0) return "";
  if (info.state_budget_bytes() == 0) {
    return absl::StrCat(Bytes(info.state_bytes()), ", ");
  }
  return absl::StrCat(Bytes(info.state_bytes()), " of a budget of ",
                      Bytes(info.state_budget_bytes()), ", ");
}

std::string MetricsText(const v1::InfoResponse& info) {
  const std::string& address = info.metrics_address();
  if (address.empty()) return "off";
  if (absl::StartsWith(address, "unix:")) return address;
  return absl::StrCat(info.metrics_tls() ? "https://" : "http://", address,
                      "/metrics");
}

void PrintIdentity(const v1::WhoAmIResponse& who, const Console& console) {
  const absl::Time now = console.terminal.clock->Now();
  Field(console.out, "you", IdentityText(who, now));
  if (who.has_certificate_expire_time()) {
    Field(console.out, "certificate",
          CertificateText(ToTime(who.certificate_expire_time()), now));
  }
}

void PrintInfo(const v1::InfoResponse& info, const v1::WhoAmIResponse& who,
               const Console& console) {
  std::ostream& out = console.out;
  const absl::Duration up =
      console.terminal.clock->Now() - ToTime(info.start_time());
  Field(out, "mpsd",
        absl::StrCat(info.version(), " at ", console.daemon.address().target,
                     ", up ", Seconds(absl::ToDoubleSeconds(up))));
  PrintIdentity(who, console);
  Field(out, "worker", info.worker_version());
  Field(out, "torch", info.torch_version());
  Field(out, "device", DeviceText(info));
  Field(out, "platform", info.platform());
  if (const std::string host = HostText(info.host()); !host.empty()) {
    Field(out, "machine", host);
  }
  Field(out, "jobs", JobsText(info));
  if (info.has_you()) Field(out, "usage", UsageText(info.you()));
  if (!info.hold().empty()) {
    Field(out, "jobs wait",
          info.hold_reason().empty()
              ? info.hold()
              : absl::StrCat(info.hold_reason(), ": ", info.hold()));
  }
  if (info.has_pause()) {
    Field(out, "paused",
          PauseText(info.pause(), console.terminal.clock->Now()));
  }
  Field(out, "state folder",
        absl::StrCat(info.state_dir(), ", ", StateText(info),
                     Bytes(info.disk_free_bytes()), " free"));
  Field(out, "metrics", MetricsText(info));
  if (!info.page_address().empty()) {
    Field(out, "web page", PageText(info.page_address()));
  }
  Field(out, "schema", absl::StrCat(info.schema_version()));
  Field(out, "protocol", absl::StrCat(info.protocol_version()));
}

ExitCode Info(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::InfoRequest request;
  request.set_you(true);
  v1::InfoResponse info;
  grpc::Status status = console.daemon.daemon().Info(&context, request, &info);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(info);
    return ExitCode::kOk;
  }
  grpc::ClientContext asked;
  SetDeadline(asked);
  v1::WhoAmIResponse who;
  status = console.daemon.access().WhoAmI(&asked, v1::WhoAmIRequest(), &who);
  if (!status.ok()) return console.Fail(status);
  PrintInfo(info, who, console);
  return ExitCode::kOk;
}

}  // namespace

void AddInfo(Command& app, Action* action) {
  Command* verb = app.add_subcommand("info", "Show the daemon and its device");
  verb->callback([=] { *action = Info; });
}

}  // namespace mpsd::client
