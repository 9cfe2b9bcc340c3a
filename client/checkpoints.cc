// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

void PrintTable(const Console& console,
                const v1::CheckpointsResponse& response) {
  if (response.checkpoints().empty()) {
    console.out << "No checkpoints.\n";
    return;
  }
  Table table({"STEP", "CREATED", "SIZE", "PATH"});
  for (const v1::Checkpoint& checkpoint : response.checkpoints()) {
    table.Add(
        {absl::StrCat(checkpoint.step()),
         DateTime(ToTime(checkpoint.create_time()), console.terminal.zone),
         Bytes(checkpoint.size_bytes()), checkpoint.path()});
  }
  table.Print(console.out, 0);
}

ExitCode Checkpoints(const std::string& text, const Console& console) {
  ExitCode code;
  auto id = ResolveJobId(console, text, &code);
  if (!id) return code;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CheckpointsRequest request;
  request.set_id(*id);
  v1::CheckpointsResponse response;
  grpc::Status status =
      console.daemon.jobs().Checkpoints(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    for (const v1::Checkpoint& checkpoint : response.checkpoints()) {
      console.PrintJson(checkpoint);
    }
  } else {
    PrintTable(console, response);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddCheckpoints(Command& app, Action* action) {
  auto text = std::make_shared<std::string>();
  Command* verb =
      app.add_subcommand("checkpoints", "List the checkpoints of a job");
  verb->add_option(kJobIdName, *text, "The job")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Checkpoints(*text, console);
    };
  });
}

}  // namespace mpsd::client
