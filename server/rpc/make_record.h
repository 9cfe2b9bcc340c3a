// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_MAKE_RECORD_H_
#define MPSD_SERVER_RPC_MAKE_RECORD_H_

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/host/mounts.h"
#include "mpsd/v1/record.pb.h"
#include "server/jobs/job.h"

namespace mpsd::records {

// What a record is made of.
struct RecordSources {
  jobs::Job job;
  std::vector<std::string> attempts;  // jobs::PastJobs::Attempts
  std::filesystem::path folder;       // the job's: request.json
  std::filesystem::path output_dir;   // run.json, result.json
};

// The record of a job, without notes and tags. Omits what a missing or
// malformed file would have contained. Reads at most a few MiB.
v1::JobRecord MakeRecord(const RecordSources& sources);

// Adds to `record` a run's environment, shape, memory, fallbacks and data from
// its run.json (core/train/manifest.h). A worker wrote `text`, and may have
// been made to write anything: omits members of other types, and overlong
// texts.
void ReadManifest(const std::string& text, v1::JobRecord& record);

// Adds a job's attempts (v1::RunAttempt, serialized, oldest first) to `record`:
// the last 32 one by one, and all of them together as environment, conditions,
// pauses and durations. An attempt whose end mpsd did not see was interrupted,
// unless the job runs and it is the last one.
void SumAttempts(const std::vector<std::string>& attempts,
                 v1::JobRecord& record);

// The type of the file system below the state folder, the model and the data,
// if the job reads or writes there.
std::map<std::string, std::string> FileSystemsOf(
    const jobs::Job& job, const std::filesystem::path& folder,
    const std::vector<host::Mount>& mounts);

// What a text search covers, of a deleted job.
std::string TextsOf(const v1::JobRecord& record);

// A deleted job as lists show it.
v1::Job JobOf(const v1::JobRecord& record);

}  // namespace mpsd::records

#endif  // MPSD_SERVER_RPC_MAKE_RECORD_H_
