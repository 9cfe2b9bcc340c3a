// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_DELETED_FOLDER_H_
#define MPSD_SERVER_JOBS_DELETED_FOLDER_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Deletes a job's folder. The row and the folder cannot go at one moment, so
// the intent is written down first; a daemon that starts finishes or forgets
// the deletion (job_sweep.h):
//
//   jobs/.ID.delete is written     a kill: the job stays
//   the row goes                   a kill: the folder goes at the next start
//   jobs/ID -> jobs/.ID.….tmp      a kill: the same
//   that is removed, then the mark
namespace mpsd::jobs {

// The path jobs/.ID.delete for the folder jobs/ID.
std::filesystem::path DeletionMark(const std::filesystem::path& folder);
// The folder that the mark `path` stands for; empty where `path` is no mark.
std::filesystem::path MarkedFolder(const std::filesystem::path& path);

// Once it returns OK the mark is durable. `folder` need not exist.
absl::Status MarkForDeletion(const std::filesystem::path& folder);
// Removes the mark; the job stays.
void UnmarkForDeletion(const std::filesystem::path& folder);
// Call it once the row is gone: removes `folder` and then its mark; the next
// start removes what cannot be removed now. Returns the bytes freed; uploaded
// inputs are links to blobs, which stay for a while.
int64_t RemoveMarkedFolder(const std::filesystem::path& folder);

// Removes folder/out/checkpoints: renames it to a name beside `folder` that the
// next start removes, and then removes it. Follows no link. Returns the bytes
// freed; 0 where there are no checkpoints.
absl::StatusOr<int64_t> RemoveCheckpointsOf(
    const std::filesystem::path& folder);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_DELETED_FOLDER_H_
