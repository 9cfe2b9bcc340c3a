// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iomanip>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/text/host_text.h"
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

std::string PageText(const std::string& address) {
  return absl::StartsWith(address, "unix:")
             ? address
             : absl::StrCat("http://", address, "/");
}

std::string MetricsText(const v1::InfoResponse& info) {
  const std::string& address = info.metrics_address();
  if (address.empty()) return "off";
  if (absl::StartsWith(address, "unix:")) return address;
  return absl::StrCat(info.metrics_tls() ? "https://" : "http://", address,
                      "/metrics");
}

void PrintInfo(const v1::InfoResponse& info, const Console& console) {
  std::ostream& out = console.out;
  const absl::Duration up =
      console.terminal.clock->Now() - ToTime(info.start_time());
  Field(out, "mpsd",
        absl::StrCat(info.version(), " at ", console.daemon.address().target,
                     ", up ", Seconds(absl::ToDoubleSeconds(up))));
  Field(out, "worker", info.worker_version());
  Field(out, "torch", info.torch_version());
  Field(out, "device", DeviceText(info));
  Field(out, "platform", info.platform());
  if (const std::string host = HostText(info.host()); !host.empty()) {
    Field(out, "machine", host);
  }
  Field(out, "jobs", JobsText(info));
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
        absl::StrCat(info.state_dir(), ", ", Bytes(info.disk_free_bytes()),
                     " free"));
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
  v1::InfoResponse info;
  grpc::Status status =
      console.daemon.daemon().Info(&context, v1::InfoRequest(), &info);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(info);
  } else {
    PrintInfo(info, console);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddInfo(CLI::App& app, Action* action) {
  CLI::App* verb = app.add_subcommand("info", "Show the daemon and its device");
  verb->callback([=] { *action = Info; });
}

}  // namespace mpsd::client
