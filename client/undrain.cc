// SPDX-License-Identifier: Apache-2.0

#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode Undrain(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::UndrainResponse response;
  grpc::Status status =
      console.daemon.daemon().Undrain(&context, {}, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << "mpsd starts jobs.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddUndrain(Command& app, Action* action) {
  Command* verb =
      app.add_subcommand("undrain", "Start jobs again after drain; for admins");
  verb->callback([=] { *action = Undrain; });
}

}  // namespace mpsd::client
