// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_line.h"
#include "client/model_verbs.h"
#include "client/text/format.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

std::string LastUse(const v1::Model& model, const Console& console) {
  if (model.unfinished_jobs() > 0) {
    return absl::StrCat(model.unfinished_jobs(),
                        model.unfinished_jobs() == 1 ? " job" : " jobs");
  }
  if (!model.has_last_use_time()) return "-";
  const absl::Duration ago =
      console.terminal.clock->Now() - ToTime(model.last_use_time());
  return absl::StrCat(Seconds(std::max(0.0, absl::ToDoubleSeconds(ago))),
                      " ago");
}

std::string Fits(const v1::Model& model) {
  if (!model.has_fits()) return "-";
  return model.fits() ? "yes" : "no";
}

std::string Parameters(const v1::Model& model) {
  if (model.parameters() <= 0) return "-";
  return Count(static_cast<double>(model.parameters()));
}

void Print(const v1::ListModelsResponse& listed, const Console& console) {
  Table table({"NAME", "SIZE", "FAMILY", "PARAMETERS", "TASKS", "MEMORY",
               "FITS", "USED", "FROM"});
  for (const v1::Model& model : listed.models()) {
    table.Add({model.name(), Bytes(model.size_bytes()),
               model.family().empty() ? "-" : model.family(), Parameters(model),
               model.tasks().empty() ? "-" : absl::StrJoin(model.tasks(), ","),
               model.least_memory_bytes() > 0
                   ? Bytes(model.least_memory_bytes())
                   : "-",
               Fits(model), LastUse(model, console),
               model.pulled() ? "the hub" : model.owner()});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  for (const v1::Model& model : listed.models()) {
    if (model.problem().empty()) continue;
    console.out << Printable(model.name()) << ": " << Printable(model.problem())
                << '\n';
  }
}

ExitCode List(const std::string& name, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListModelsRequest request;
  request.set_name(name);
  v1::ListModelsResponse response;
  const grpc::Status status =
      console.daemon.models().ListModels(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  if (!name.empty() && response.models().empty()) {
    return console.Fail(ExitCode::kNotFound,
                        absl::StrCat("mpsd has no model ", Printable(name)),
                        "See those it has with `mpsctl model list`.");
  }
  if (console.json) {
    for (const v1::Model& model : response.models()) console.PrintJson(model);
  } else if (response.models().empty()) {
    console.out << "mpsd has no models yet: send one with `mpsctl model push "
                   "FOLDER`.\n";
  } else {
    Print(response, console);
  }
  console.out << std::flush;
  return ExitCode::kOk;
}

}  // namespace

void AddModelList(Command& model, Action* action) {
  auto name = std::make_shared<std::string>();
  Command* verb =
      model.add_subcommand("list", "List the models that jobs can name");
  verb->add_option(kModelName, *name, "This one alone")->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return List(*name, console); };
  });
}

}  // namespace mpsd::client
