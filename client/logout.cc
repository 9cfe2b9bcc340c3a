// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/contexts/context_store.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode Logout(const Console& console, std::string name) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  if (name.empty()) {
    const absl::StatusOr<std::string> current = contexts.Current();
    if (!current.ok()) {
      return console.Fail(ExitCode::kBadInput, current.status(), "");
    }
    if (current->empty()) {
      return console.Fail(ExitCode::kBadInput, "no context is the current one",
                          "Name one; `mpsctl context list` shows them.");
    }
    name = *current;
  }
  const absl::Status status = contexts.Remove(name);
  if (!status.ok()) {
    return console.Fail(
        absl::IsNotFound(status) ? ExitCode::kNotFound : ExitCode::kBadInput,
        status, "");
  }
  console.out << "Removed the context " << name
              << " with its token from this machine. The daemon still takes "
                 "the token: `mpsctl token revoke` ends it there.\n";
  return ExitCode::kOk;
}

}  // namespace

void AddLogout(Command& app, Action* action) {
  auto name = std::make_shared<std::string>();
  Command* verb = app.add_subcommand(
      "logout", "Forget a daemon that you logged in to, and its token");
  verb->add_option(kContextName, *name, "Which one (else the current one)")
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Logout(console, *name); };
  });
}

}  // namespace mpsd::client
