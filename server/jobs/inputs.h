// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_INPUTS_H_
#define MPSD_SERVER_JOBS_INPUTS_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// How job.json spells a job's uploaded files. The worker knows these files only
// by their places below JOBS/ID/inputs, and its messages are shown in the
// user's spelling.
class InputNames {
 public:
  // The name of the file in the job's folder that keeps the names.
  static constexpr char kFile[] = "input_names.json";

  // The content of kFile for `links`; empty, and then no file is needed, if
  // every input is spelled like its place.
  static std::string Encode(const std::vector<JobFiles::Link>& links);

  // Reads the names of a job's `folder`. An unreadable kFile counts as empty.
  explicit InputNames(const std::filesystem::path& folder);

  // `text` with the first 16 paths below inputs/ spelled as in job.json. A
  // folder is spelled after a file in it, and so is a path that was not
  // uploaded.
  std::string Respelled(std::string_view text) const;

 private:
  // The spelling of the path at the start of `rest`, and how many bytes of
  // `rest` the path has.
  std::pair<std::string, size_t> Spelling(std::string_view rest) const;

  std::string inputs_;                                     // ".../inputs/"
  std::map<std::string, std::string, std::less<>> names_;  // place → name
  size_t longest_ = 0;  // length of the longest place
};

// Places the uploaded files of a submission below the inputs/ of its job. The
// files keep their positions relative to each other, so that a path in one of
// them finds another: "train.jsonl" and "../images/1.png" become
// "up/train.jsonl" and "images/1.png", "/data/t.csv" becomes "root/data/t.csv".
class Inputs {
 public:
  // `job_id`, `files` and `blobs` must outlive it.
  //   INVALID_ARGUMENT    an invalid hash or path, a path given twice, or
  //                       one below another.
  //   FAILED_PRECONDITION a missing blob.
  static absl::StatusOr<Inputs> Create(const std::vector<InputFile>& inputs,
                                       const std::string& job_id,
                                       JobFiles& files, BlobStore& blobs);

  // The path that the worker gets for a file or folder of the spec: below
  // inputs/, or else a path of this machine that jobs may read for `use`.
  // Errors begin with `field`.
  absl::StatusOr<std::string> Resolve(const std::string& field,
                                      const std::string& path,
                                      JobFiles::Use use = JobFiles::Use::kData);

  // INVALID_ARGUMENT for an input that no call of Resolve used.
  absl::Status CheckAllUsed() const;

  std::vector<JobFiles::Link> Links() const;

 private:
  struct Input {
    std::string path;  // as given
    std::string sha256;
    std::string relative;  // relative to inputs/
    bool used = false;
  };

  Inputs(const std::string& job_id, JobFiles& files, BlobStore& blobs)
      : job_id_(&job_id), files_(&files), blobs_(&blobs) {}

  absl::Status Add(const InputFile& input);
  absl::Status Arrange();
  // The place of a normal path below inputs/; empty for a path that names
  // nothing.
  std::string PlaceOf(const std::string& normal) const;
  // Whether inputs lie below a normal path; marks them as used.
  bool UseBelow(const std::string& folder);
  absl::StatusOr<std::string> Local(const std::string& field,
                                    const std::string& path,
                                    JobFiles::Use use) const;

  const std::string* job_id_;
  JobFiles* files_;
  BlobStore* blobs_;
  std::map<std::string, Input> inputs_;  // by normal path
  std::map<std::string, bool> folders_;  // results of UseBelow
  int levels_up_ = 0;  // the most ".." at the beginning of a path
  std::string up_ = "up", root_ = "root";
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_INPUTS_H_
