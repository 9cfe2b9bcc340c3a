// SPDX-License-Identifier: Apache-2.0
#include "core/train/run.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/train/stages.h"

namespace mpsd::train {

absl::StatusOr<RunResult> Run(spec::TrainSpec spec, const RunContext& context,
                              Observer& observer) {
  for (const std::string& file : spec.dataset.train) {
    base::Check(std::filesystem::path(file).is_absolute(),
                "paths of the spec are absolute");
  }
  ASSIGN_OR_RETURN(auto opened, Open(std::move(spec), context, observer));
  auto loaded = Load(std::move(opened));
  if (absl::IsCancelled(loaded.status())) {
    RunResult result;
    result.stopped = observer.stop_request();
    const auto steps = ckpt::ListCheckpoints(context.out_dir);
    if (!steps.empty()) result.steps = result.checkpoint_step = steps.back();
    return result;
  }
  if (!loaded.ok()) return loaded.status();
  ASSIGN_OR_RETURN(auto prepared, Prepare(*std::move(loaded)));
  ASSIGN_OR_RETURN(auto end, Loop(prepared));
  if (!end.complete) return FinishStopped(prepared, end.stopped);
  return Finish(prepared, std::move(end.last_eval));
}

}  // namespace mpsd::train
