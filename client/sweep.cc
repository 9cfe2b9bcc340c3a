// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "client/output_file.h"
#include "client/study.h"
#include "client/sweep_batch.h"
#include "client/sweep_grid.h"
#include "client/sweep_verbs.h"
#include "client/verbs.h"

namespace mpsd::client {

void AddSweep(Command& app, Action* action) {
  auto study = std::make_shared<StudyArguments>();
  auto batch = std::make_shared<BatchSweepArguments>();
  auto grid = std::make_shared<GridArguments>();
  Command* verb = app.add_subcommand(
      "sweep", "Find out which batch, or which values, are best");
  DeclareStudy(*verb, study.get());
  // The verbs below have none.
  verb->get_option("JOB")->required(false);
  DeclareBatchSweep(*verb, batch.get());
  DeclareGrid(*verb, grid.get());
  AddSweepVerbs(*verb, action);
  verb->callback([=] {
    // The callbacks of the verbs below come first.
    if (!verb->chosen().empty()) return;
    *action = [=](const Console& console) {
      if (study->job_file.empty()) {
        return console.Fail(ExitCode::kBadInput, "sweep: expected a job.json",
                            "See `mpsctl sweep --help`.");
      }
      if (batch->batch && GridAsked(*grid)) {
        return console.Fail(
            ExitCode::kBadInput,
            "sweep: expected --batch, or --grid or --random, not both",
            "A sweep of batches is one job, and the others are many.");
      }
      for (const auto& [option, path] :
           {std::pair("--csv", batch->csv), std::pair("--svg", batch->svg)}) {
        const absl::Status there = CheckOutputFile(option, path);
        if (there.ok()) continue;
        return console.Fail(ExitCode::kBadInput, there,
                            "Nothing was submitted.");
      }
      if (batch->batch) return RunBatchSweep(console, *study, *batch);
      if (GridAsked(*grid)) {
        grid->svg = batch->svg;
        grid->csv = batch->csv;
        return RunGrid(console, *study, *grid);
      }
      return console.Fail(
          ExitCode::kBadInput, "sweep: expected --batch, --grid or --random",
          "`mpsctl sweep JOB --batch` tries batch sizes, `mpsctl sweep JOB "
          "--grid lora.r=8,16` queues a job for each value.");
    };
  });
}

}  // namespace mpsd::client
