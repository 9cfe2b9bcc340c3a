// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/format.h"
#include "client/job_id.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

void PrintCancelled(const v1::Job& job, std::ostream& out) {
  out << "Job " << job.id();
  if (job.state() == v1::JOB_STATE_CANCELLED) {
    out << " is CANCELLED.\n";
  } else if (IsFinal(job.state())) {
    out << " had ended before: " << StateName(job.state()) << ".\n";
  } else {
    out << " is being cancelled; see it end with `mpsctl watch " << job.id()
        << "`.\n";
  }
}

ExitCode Cancel(const std::string& text, const Console& console) {
  ExitCode code;
  auto id = ResolveJobId(console, text, &code);
  if (!id) return code;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CancelRequest request;
  request.set_id(*id);
  v1::Job job;
  grpc::Status status = console.daemon.jobs().Cancel(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
  } else {
    PrintCancelled(job, console.out);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddCancel(CLI::App& app, Action* action) {
  auto text = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("cancel", "Ask a job to end");
  verb->add_option(kJobIdName, *text, "The job")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Cancel(*text, console); };
  });
}

}  // namespace mpsd::client
