// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_FILES_H_
#define MPSD_SERVER_JOBS_JOB_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/model_config.h"

namespace mpsd::jobs {

// The folder of a job and what the scheduler asks of the disk. One folder per
// job below STATE/jobs:
//
//   ID/job.json   the fully defaulted spec, paths of this machine
//   ID/inputs/    the uploaded files, links to their blobs
//   ID/out/       the worker's --out
//   ID/log        the worker's stderr and the daemon's lines about the job
//
// Thread-safe. DiskJobFiles is the real one; tests keep it in memory.
class JobFiles {
 public:
  struct Link {
    std::string relative;  // below inputs/, '/' between parts, no ".."
    std::string target;    // absolute
  };
  struct Model {
    std::string folder;  // absolute
    spec::ModelConfig config;
  };

  explicit JobFiles(std::filesystem::path state_dir)
      : jobs_dir_(std::filesystem::absolute(state_dir) / "jobs") {}
  virtual ~JobFiles() = default;

  // Makes the folder with job.json and inputs/; durable when it returns OK.
  virtual absl::Status Create(const std::string& job_id,
                              const std::string& spec_json,
                              const std::vector<Link>& links) = 0;
  virtual void Remove(const std::string& job_id) = 0;
  // Appends "<time> mpsd: <line>" to the job's log.
  virtual void AppendLog(const std::string& job_id,
                         const std::string& line) = 0;
  // Whether this machine has such a file or folder.
  virtual bool Exists(const std::string& path) = 0;
  // spec::FindModelFolder and spec::ReadModelConfig of what it finds.
  virtual absl::StatusOr<Model> FindModel(const std::string& model) = 0;

  std::string Folder(const std::string& job_id) const {
    return jobs_dir_ / job_id;
  }
  std::string SpecPath(const std::string& job_id) const {
    return jobs_dir_ / job_id / "job.json";
  }
  std::string InputPath(const std::string& job_id,
                        const std::string& relative) const {
    return jobs_dir_ / job_id / "inputs" / relative;
  }
  std::string OutputDir(const std::string& job_id) const {
    return jobs_dir_ / job_id / "out";
  }
  std::string LogPath(const std::string& job_id) const {
    return jobs_dir_ / job_id / "log";
  }

 private:
  const std::filesystem::path jobs_dir_;
};

class DiskJobFiles final : public JobFiles {
 public:
  using JobFiles::JobFiles;
  absl::Status Create(const std::string& job_id, const std::string& spec_json,
                      const std::vector<Link>& links) override;
  void Remove(const std::string& job_id) override;
  void AppendLog(const std::string& job_id, const std::string& line) override;
  bool Exists(const std::string& path) override;
  absl::StatusOr<Model> FindModel(const std::string& model) override;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_FILES_H_
