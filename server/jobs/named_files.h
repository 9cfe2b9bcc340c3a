// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_NAMED_FILES_H_
#define MPSD_SERVER_JOBS_NAMED_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job_id.h"

namespace mpsd::jobs {

// A blob that a user sent under a name, to name it in jobs by its id.
struct NamedFile {
  std::string id;  // "file-" and what IsJobId takes; ids sort by their times
  std::string owner;
  std::string name;  // without slashes
  std::string sha256;
  int64_t size_bytes = 0;
  absl::Time create_time;
};

inline constexpr std::string_view kNamedFilePrefix = "file-";

inline bool IsNamedFileId(std::string_view id) {
  return id.starts_with(kNamedFilePrefix) &&
         IsJobId(id.substr(kNamedFilePrefix.size()));
}

// The named files of all users. A file of another user counts as not there.
// Thread-safe; implemented by server/store.
class NamedFiles {
 public:
  struct Page {
    std::string after = "";  // an id, also of a file that is gone; empty: none
    int limit = 20;
    bool oldest_first = false;
  };

  virtual ~NamedFiles() = default;
  // Durable once it returns OK; the blob stays until Remove. Aborted where the
  // blob is gone; ResourceExhausted where the owner has limits::kNamedFiles.
  virtual absl::Status Insert(const NamedFile& file) = 0;
  // NotFound, without quoting an id that is none.
  virtual absl::StatusOr<NamedFile> Get(const std::string& owner,
                                        const std::string& id) = 0;
  virtual absl::StatusOr<std::vector<NamedFile>> List(const std::string& owner,
                                                      const Page& page) = 0;
  // Durable once it returns OK. Jobs that were submitted with the file keep
  // their data. NotFound as Get.
  virtual absl::Status Remove(const std::string& owner,
                              const std::string& id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_NAMED_FILES_H_
