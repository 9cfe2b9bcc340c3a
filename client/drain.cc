// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode Drain(const std::string& reason, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::DrainRequest request;
  request.set_reason(reason);
  v1::DrainResponse response;
  grpc::Status status =
      console.daemon.daemon().Drain(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << "mpsd starts no further job until `mpsctl undrain`, after "
                   "a restart either. A running job goes on.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddDrain(Command& app, Action* action) {
  auto reason = std::make_shared<std::string>();
  Command* verb = app.add_subcommand(
      "drain", "Start no further job until undrain; for admins");
  verb->add_option("--reason", *reason, "Why, for whoever waits")
      ->type_name("TEXT");
  verb->callback([=] {
    *action = [=](const Console& console) { return Drain(*reason, console); };
  });
}

}  // namespace mpsd::client
