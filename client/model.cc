// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_line.h"
#include "client/model_verbs.h"
#include "client/text/format.h"

namespace mpsd::client {

std::string ModelText(const v1::Model& model) {
  std::vector<std::string> parts = {Bytes(model.size_bytes())};
  if (!model.family().empty()) parts.push_back(Printable(model.family()));
  if (model.parameters() > 0) {
    parts.push_back(absl::StrCat(Count(static_cast<double>(model.parameters())),
                                 " parameters"));
  }
  if (!model.tasks().empty()) {
    parts.push_back(
        absl::StrCat("for ", absl::StrJoin(model.tasks(), " and ")));
  }
  return absl::StrJoin(parts, ", ");
}

std::string FitText(const v1::Model& model) {
  if (model.least_memory_bytes() <= 0) return "";
  std::string text = absl::StrCat(
      "LoRA takes ", Bytes(model.least_memory_bytes()), " of memory at least");
  if (model.has_fits()) {
    absl::StrAppend(&text, model.fits() ? ", and mpsd's machine has it"
                                        : ", and mpsd's machine has less");
  }
  return text;
}

void AddModel(Command& app, Action* action) {
  Command* verb = app.add_subcommand(
      "model", "The models that jobs can name: push, pull, list, rm");
  verb->require_subcommand(1);
  AddModelPush(*verb, action);
  AddModelPull(*verb, action);
  AddModelList(*verb, action);
  AddModelRemove(*verb, action);
  for (Command* one : verb->verbs()) one->fallthrough();
}

}  // namespace mpsd::client
