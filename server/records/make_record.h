// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RECORDS_MAKE_RECORD_H_
#define MPSD_SERVER_RECORDS_MAKE_RECORD_H_

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

// The record of a job, without notes and tags. A file that is missing, or makes
// no sense, leaves out what it would have said. Reads at most a few MiB.
v1::JobRecord MakeRecord(const RecordSources& sources);

// Adds to `record` what a run's own run.json (core/train/manifest.h) has of
// environment, shape, memory, fallbacks and data. A worker wrote `text`, and
// the worker may have been made to write anything: members of other types, and
// texts that are longer than they need to be, are left out.
void ReadManifest(const std::string& text, v1::JobRecord& record);

// Adds a job's attempts (v1::RunAttempt, serialized, oldest first) to `record`:
// the last 32 one by one, and all of them together as environment, conditions,
// pauses and durations. An attempt that mpsd did not see the end of was
// interrupted, unless the job runs and it is the last one.
void SumAttempts(const std::vector<std::string>& attempts,
                 v1::JobRecord& record);

// The type of the file system below the state folder, the model and the data,
// as far as the job reads or writes there.
std::map<std::string, std::string> FileSystemsOf(
    const jobs::Job& job, const std::filesystem::path& folder,
    const std::vector<host::Mount>& mounts);

// What a search for a text looks at, of a deleted job.
std::string TextsOf(const v1::JobRecord& record);

// A deleted job as lists show it.
v1::Job JobOf(const v1::JobRecord& record);

}  // namespace mpsd::records

#endif  // MPSD_SERVER_RECORDS_MAKE_RECORD_H_
