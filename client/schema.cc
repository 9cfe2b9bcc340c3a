// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/job_reference.h"
#include "client/verbs.h"
#include "core/spec/job_schema.h"

namespace mpsd::client {

void AddSchema(Command& app, Action* action) {
  auto markdown = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand(
      "schema", "Print the JSON Schema of job.json, for editors");
  verb->add_flag("--markdown", *markdown,
                 "Print the fields as Markdown tables instead");
  verb->callback([=] {
    *action = [=](const Console& console) {
      if (*markdown) {
        console.out << JobReference();
      } else {
        console.out << spec::JobSchema().dump(console.json ? -1 : 2) << '\n';
      }
      return ExitCode::kOk;
    };
  });
}

}  // namespace mpsd::client
