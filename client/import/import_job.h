// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_IMPORT_IMPORT_JOB_H_
#define MPSD_CLIENT_IMPORT_IMPORT_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/import/run_arguments.h"

namespace mpsd::client {

// An argument whose meaning job.json does not have, or has differently.
struct ImportNote {
  std::string subject;  // "--fp16"
  std::string text;     // why, and what to do instead
};

struct ImportedJob {
  std::string spec_json;  // indented; parses with spec::ParseTrainSpec
  std::vector<ImportNote> notes;
};

// Rewrites a path of the arguments for job.json. Not called for the id of a
// model.
using PathWriter = std::function<std::string(const std::string& path)>;

// The job of run_glue.py, run_classification.py or run_image_classification.py
// with these arguments: full fine-tuning of a classifier. The notes name the
// arguments without an equal, the unknown ones, and what the scripts do by
// themselves (downloading data).
//
// InvalidArgument for a value of another type than its argument's, for
// arguments that name no model or no data, and for those that make no valid job
// together.
absl::StatusOr<ImportedJob> ImportJob(const RunArguments& run,
                                      const PathWriter& write_path);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_IMPORT_IMPORT_JOB_H_
