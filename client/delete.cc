// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode DeleteOne(const std::string& id, const Console& console) {
  grpc::ClientContext context;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::DeleteRequest request;
  request.set_id(id);
  v1::DeleteResponse response;
  // No deadline: a large folder takes long to remove.
  grpc::Status status =
      console.daemon.jobs().Delete(&context, request, &response);
  if (listener.raised()) {
    return console.Fail(ExitCode::kDetached,
                        "interrupted; the job may have been deleted", "");
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    const nlohmann::ordered_json object = {
        {"job_id", id}, {"freed_bytes", response.freed_bytes()}};
    console.out << object.dump() << '\n' << std::flush;
  } else {
    console.out << "Job " << id << " is deleted, "
                << Bytes(response.freed_bytes()) << " given back.\n"
                << std::flush;
  }
  return ExitCode::kOk;
}

ExitCode Delete(const std::vector<std::string>& texts, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto ids =
      ResolveJobIds(console, texts, &code, FewestIdCharacters::kChanges);
  if (!ids) return code;
  for (const std::string& id : *ids) {
    const ExitCode one = DeleteOne(id, console);
    if (code == ExitCode::kOk) code = one;
    if (one == ExitCode::kDetached) break;
  }
  return code;
}

}  // namespace

void AddDelete(CLI::App& app, Action* action) {
  auto texts = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand(
      "delete", "Remove jobs that have ended, with their logs and results");
  verb->add_option(kJobIdName, *texts, "The jobs")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Delete(*texts, console); };
  });
}

}  // namespace mpsd::client
