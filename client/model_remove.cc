// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/model_verbs.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

// Whether the model came from the hub, whose files go at once.
bool IsPulled(const std::string& name, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListModelsRequest request;
  request.set_name(name);
  v1::ListModelsResponse response;
  return console.daemon.models()
             .ListModels(&context, request, &response)
             .ok() &&
         !response.models().empty() && response.models(0).pulled();
}

ExitCode RemoveOne(const std::string& name, const Console& console) {
  const bool pulled = IsPulled(name, console);
  grpc::ClientContext context;
  v1::RemoveModelRequest request;
  request.set_name(name);
  v1::RemoveModelResponse response;
  // No deadline: a large folder takes long to remove.
  const grpc::Status status =
      console.daemon.models().RemoveModel(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return console.Fail(ExitCode::kNotFound,
                        absl::StrCat("mpsd has no model ", Printable(name)),
                        "See those it has with `mpsctl model list`.");
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    const nlohmann::ordered_json object = {
        {"name", name}, {"freed_bytes", response.freed_bytes()}};
    console.out << object.dump() << '\n' << std::flush;
    return ExitCode::kOk;
  }
  console.out << "Model " << Printable(name) << " is removed, "
              << Bytes(response.freed_bytes())
              << (pulled ? " given back.\n"
                         : " to be given back once uploads that nothing needs "
                           "expire (mpsd --blob-grace-seconds).\n")
              << std::flush;
  return ExitCode::kOk;
}

ExitCode Remove(const std::vector<std::string>& names, const Console& console) {
  ExitCode code = ExitCode::kOk;
  for (const std::string& name : names) {
    const ExitCode one = RemoveOne(name, console);
    if (code == ExitCode::kOk) code = one;
  }
  return code;
}

}  // namespace

void AddModelRemove(Command& model, Action* action) {
  auto names = std::make_shared<std::vector<std::string>>();
  Command* verb = model.add_subcommand(
      "rm", "Remove models that no job needs which has not ended");
  verb->add_option(kModelName, *names, "The models")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Remove(*names, console); };
  });
}

}  // namespace mpsd::client
