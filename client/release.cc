// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

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
  auto texts = std::make_shared<std::vector<std::string>>();
  Command* verb = app.add_subcommand("release", "Let held jobs start");
  verb->add_option(kJobIdName, *texts, "The jobs")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return ForEachJob(console, *texts, [&](const std::string& id) {
        return ReleaseOne(id, console);
      });
    };
  });
}

}  // namespace mpsd::client
