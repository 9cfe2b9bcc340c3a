// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_OBJECTS_H_
#define MPSD_SERVER_OPENAI_OBJECTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "mpsd/v1/job.pb.h"
#include "mpsd/v1/models.pb.h"
#include "server/jobs/named_files.h"
#include "server/openai/answer.h"

namespace mpsd::openai {

// mpsd's things in the shape of OpenAI's objects. A field that mpsd does not
// know is null.

Json FileObject(const jobs::NamedFile& file);

// What is shown of one file of a job's result; `path` is relative to the
// result.
struct ResultFile {
  std::string job_id, path;
  int64_t size_bytes = 0;
  absl::Time create_time;
};
// "file-JOB-PATH".
std::string ResultFileId(const std::string& job_id, const std::string& path);
Json FileObject(const ResultFile& file);

// The name under which a new job goes on from the job's result.
std::string ResultModel(std::string_view job_id);
// The id in such a name; empty for another name.
std::string JobOfModel(std::string_view model);

// `job` as JobService.Get shows it. `result_files`: ids.
Json JobObject(const v1::Job& job, const std::vector<std::string>& result_files,
               absl::Time now);
// "ftevent-JOB-SEQUENCE".
std::string EventId(const std::string& job_id, int64_t sequence);
Json EventObject(const std::string& job_id, const v1::JobEvent& event);
// "ftckpt-JOB-STEP".
std::string CheckpointId(const std::string& job_id, int64_t step);
Json CheckpointObject(const std::string& job_id,
                      const v1::Checkpoint& checkpoint);
Json ModelObject(const v1::Model& model);
Json ModelObject(const v1::Job& job);  // that has SUCCEEDED

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_OBJECTS_H_
