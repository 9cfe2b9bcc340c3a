// SPDX-License-Identifier: Apache-2.0
#include "core/train/run.h"

#include <utility>

#include "core/base/check.h"
#include "core/train/stages.h"

namespace mpsd::train {

absl::StatusOr<RunResult> Run(spec::TrainSpec spec, const RunContext& context,
                              Observer& observer) {
  for (const std::string& file : spec.dataset.train) {
    base::Check(std::filesystem::path(file).is_absolute(),
                "paths of the spec are absolute");
  }
  auto opened = Open(std::move(spec), context, observer);
  if (!opened.ok()) return opened.status();
  auto loaded = Load(*std::move(opened));
  if (!loaded.ok()) return loaded.status();
  auto prepared = Prepare(*std::move(loaded));
  if (!prepared.ok()) return prepared.status();
  auto end = Loop(*prepared);
  if (!end.ok()) return end.status();
  if (!end->complete) return FinishStopped(*prepared, end->stopped);
  return Finish(*prepared, std::move(end->last_eval));
}

}  // namespace mpsd::train
