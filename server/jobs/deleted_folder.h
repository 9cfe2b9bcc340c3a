// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_DELETED_FOLDER_H_
#define MPSD_SERVER_JOBS_DELETED_FOLDER_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"

// The folder of a job on its way out. Its row and its folder cannot go at one
// moment, so the intent is written down first; a daemon that starts finishes or
// forgets it (job_sweep.h):
//
//   jobs/.ID.delete is written     a kill: the job stays
//   the row goes                   a kill: the folder goes at the next start
//   jobs/ID -> jobs/.ID.….tmp      a kill: the same
//   that is removed, then the mark
namespace mpsd::jobs {

// jobs/.ID.delete of the folder jobs/ID.
std::filesystem::path DeletionMark(const std::filesystem::path& folder);
// The folder that `path` is the mark of; empty where it is none.
std::filesystem::path MarkedFolder(const std::filesystem::path& path);

// Durable from OK on. A folder that is not there can be marked too.
absl::Status MarkForDeletion(const std::filesystem::path& folder);
// The job stays.
void UnmarkForDeletion(const std::filesystem::path& folder);
// The row is gone: removes `folder` and then its mark; what cannot be removed
// is left to the next start. Returns the bytes that this gives back: inputs are
// links to blobs, which stay for a while.
int64_t RemoveMarkedFolder(const std::filesystem::path& folder);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_DELETED_FOLDER_H_
