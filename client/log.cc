// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/command_line.h"
#include "client/log_verbs.h"

namespace mpsd::client {

void AddLog(Command& app, Action* action) {
  struct Options {
    int limit = 20;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "log",
      "The logbook: what ended, with which torch, data and machine; what one "
      "job printed is `mpsctl logs`");
  verb->add_option("--limit", options->limit, "At most so many of the latest")
      ->check(Range(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  verb->require_subcommand(0, 1);
  AddLogSearch(*verb, action);
  AddLogShow(*verb, action);
  AddLogDiff(*verb, action);
  AddLogNote(*verb, action);
  AddLogTag(*verb, action);
  AddLogExport(*verb, action);
  verb->callback([=] {
    // Runs after the callback of a verb below it.
    if (!verb->chosen().empty()) return;
    *action = [=](const Console& console) {
      return SearchLog(console, "", options->limit);
    };
  });
}

}  // namespace mpsd::client
