// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode ReleaseOne(const std::string& id, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ReleaseRequest request;
  request.set_id(id);
  v1::Job job;
  grpc::Status status = console.daemon.jobs().Release(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
    return ExitCode::kOk;
  }
  console.out << "Job " << job.id() << " is held no more" << AheadText(job)
              << ".\n";
  return ExitCode::kOk;
}

}  // namespace

void AddRelease(Command& app, Action* action) {
  auto named = std::make_shared<NamedJobs>();
  Command* verb = app.add_subcommand("release", "Let held jobs start");
  AddNamedJobs(verb, named.get());
  verb->callback([=] {
    *action = [=](const Console& console) {
      v1::ListJobsRequest filter;
      filter.add_states(v1::JOB_STATE_QUEUED);
      filter.set_held(true);
      return ForEachJob(console, *named, filter, [&](const std::string& id) {
        return ReleaseOne(id, console);
      });
    };
  });
}

}  // namespace mpsd::client
