// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LOGBOOK_MAKE_RECORD_H_
#define MPSD_SERVER_LOGBOOK_MAKE_RECORD_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/host/mounts.h"
#include "mpsd/v1/logbook.pb.h"
#include "server/jobs/job.h"
#include "server/logbook/record_store.h"

namespace mpsd::logbook {

// What a record is made of.
struct RecordSources {
  jobs::Job job;                      // has ended
  std::vector<std::string> attempts;  // RecordStore::Attempts
  std::filesystem::path folder;       // the job's: request.json
  std::filesystem::path output_dir;   // run.json, result.json
  std::string daemon_version, daemon_commit;
  // The machine's file systems, for a run that has just ended; empty: what they
  // were then is not known.
  std::vector<host::Mount> mounts = {};
};

// The record of a job. A file that is missing, or makes no sense, leaves out
// what it would have told. Reads at most a few MiB.
v1::Record MakeRecord(const RecordSources& sources);

// An entry that `owner` writes by hand; its text is its first note.
v1::Record MakeEntry(const std::string& id, const std::string& owner,
                     absl::Time time);

// What the store keeps of `record`.
NewRecord ToRow(const v1::Record& record);

// `stored` as the API tells it. An unreadable body leaves the id, the owner,
// the notes and the tags.
v1::Record FromRow(const StoredRecord& stored);

}  // namespace mpsd::logbook

#endif  // MPSD_SERVER_LOGBOOK_MAKE_RECORD_H_
