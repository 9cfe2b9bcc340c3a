// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/exported_metrics.h"

#include <filesystem>

#include "core/base/check.h"
#include "core/spec/train_spec_fields.h"
#include "server/jobs/meters.h"

namespace mpsd::jobs {

namespace {

std::string ModelName(const spec::TrainSpec& spec) {
  if (!spec.model_id.empty()) return spec.model_id;
  const std::filesystem::path folder =
      std::filesystem::path(spec.model).lexically_normal();
  return (folder.has_filename() ? folder : folder.parent_path())
      .filename()
      .string();
}

}  // namespace

StartedJob DescribeStart(const Job& job, const spec::TrainSpec& spec,
                         absl::Time since) {
  base::Check(job.start_time.has_value(), "the job has started");
  return {
      job.id,          job.name,
      job.owner,       std::string(spec::WordOf(spec.task, spec::kTaskWords)),
      ModelName(spec), *job.start_time - since,
      TimeLeft(job)};
}

}  // namespace mpsd::jobs
