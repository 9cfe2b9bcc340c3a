// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/job_id.h"
#include "client/study.h"
#include "client/verbs.h"

namespace mpsd::client {

void AddResult(CLI::App& app, Action* action) {
  auto text = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "result", "Show what a study found: a probe, a sweep, a smoke …");
  verb->add_option(kJobIdName, *text, "The study's job")
      ->required()
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      ExitCode code = ExitCode::kOk;
      const auto id = ResolveJobId(console, *text, &code);
      if (!id) return code;
      return ShowStudyResult(console, *id, PrintAnyStudy);
    };
  });
}

}  // namespace mpsd::client
