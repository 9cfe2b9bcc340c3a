// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "client/job_id.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode PinOne(const std::string& id, bool pin, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::Job job;
  grpc::Status status;
  if (pin) {
    v1::PinRequest request;
    request.set_id(id);
    status = console.daemon.jobs().Pin(&context, request, &job);
  } else {
    v1::UnpinRequest request;
    request.set_id(id);
    status = console.daemon.jobs().Unpin(&context, request, &job);
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
  } else {
    console.out << "Job " << job.id()
                << (job.pinned() ? " is pinned: nothing of it is removed until "
                                   "`mpsctl unpin`.\n"
                                 : " is not pinned.\n");
  }
  return ExitCode::kOk;
}

void AddVerb(Command& app, const char* name, const char* description, bool pin,
             Action* action) {
  auto texts = std::make_shared<std::vector<std::string>>();
  Command* verb = app.add_subcommand(name, description);
  verb->add_option(kJobIdName, *texts, "The jobs")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      ExitCode code = ExitCode::kOk;
      const auto ids =
          ResolveJobIds(console, *texts, &code, FewestIdCharacters::kChanges);
      if (!ids) return code;
      for (const std::string& id : *ids) {
        const ExitCode one = PinOne(id, pin, console);
        if (code == ExitCode::kOk) code = one;
      }
      return code;
    };
  });
}

}  // namespace

void AddPin(Command& app, Action* action) {
  AddVerb(app, "pin", "Keep jobs from delete and from every rule", true,
          action);
  AddVerb(app, "unpin", "Let pinned jobs go again", false, action);
}

}  // namespace mpsd::client
