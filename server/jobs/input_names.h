// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_INPUT_NAMES_H_
#define MPSD_SERVER_JOBS_INPUT_NAMES_H_

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/jobs/job_files.h"

namespace mpsd::jobs {

// How job.json spells a job's uploaded files. The worker knows these files only
// by their places below JOBS/ID/inputs, and its messages are shown in the
// user's spelling.
class InputNames {
 public:
  // The name of the file in the job's folder that keeps the names.
  static constexpr char kFile[] = "input_names.json";

  // The content of kFile for `links`; empty, and then no file is needed, where
  // every input is spelled like its place.
  static std::string Encode(const std::vector<JobFiles::Link>& links);

  // Reads the names of a job's `folder`. A kFile that cannot be read counts as
  // empty.
  explicit InputNames(const std::filesystem::path& folder);

  // `text` with the first 16 paths below inputs/ spelled as in job.json. A
  // folder is spelled after a file in it, and so is a path that nobody
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

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_INPUT_NAMES_H_
