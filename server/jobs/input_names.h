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

// How job.json spells the uploaded files of a job, for what its worker says,
// which knows them by their places below JOBS/ID/inputs.
class InputNames {
 public:
  // The file of a job's folder that keeps them.
  static constexpr char kFile[] = "input_names.json";

  // What kFile holds for `links`; empty, and no such file, where each is
  // spelled as it lies.
  static std::string Encode(const std::vector<JobFiles::Link>& links);

  // Reads the names of a job's `folder`. A kFile that cannot be read is none.
  explicit InputNames(const std::filesystem::path& folder);

  // `text` with the first 16 paths below inputs/ spelled as in job.json: a file
  // by its name, a folder of files and what nobody uploaded accordingly.
  std::string Respelled(std::string_view text) const;

 private:
  // The spelling of the path that `rest` begins with, and its bytes there.
  std::pair<std::string, size_t> Spelling(std::string_view rest) const;

  std::string inputs_;                                     // ".../inputs/"
  std::map<std::string, std::string, std::less<>> names_;  // by place
  size_t longest_ = 0;                                     // of the places
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_INPUT_NAMES_H_
