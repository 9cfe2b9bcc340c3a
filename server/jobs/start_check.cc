// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/start_check.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/bytes_text.h"

namespace mpsd::jobs {

spec::TrainSpec SpecOf(const Job& job) {
  return spec::ParseTrainSpec(job.spec_json, "job.json")
      .value_or(spec::TrainSpec());
}

std::string MissingPath(const Job& job, const spec::TrainSpec& spec,
                        JobFiles& files) {
  if (!files.Exists(files.SpecPath(job.id))) {
    return absl::StrCat("the job's folder ", files.Folder(job.id),
                        " is not there: it starts when it is back");
  }
  std::string missing;
  spec::VisitPaths(spec, [&](const char* field, const std::string& path) {
    if (!missing.empty() || path.empty() || files.Exists(path)) return;
    missing = absl::StrCat(
        field, ": '", path,
        "' was on this machine when the job was submitted and is not now: the "
        "job starts when it is back");
  });
  return missing;
}

std::string FullDisk(int64_t floor, JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free >= floor) return "";
  return absl::StrCat("the state folder's disk has ", base::BytesText(*free),
                      " left and jobs start with ", base::BytesText(floor),
                      " or more (mpsd --min-free-bytes): make room");
}

std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free - floor >= job.checkpoint_bytes) return "";
  return absl::StrCat("a checkpoint of the job takes about ",
                      base::BytesText(job.checkpoint_bytes),
                      " and the state folder's disk has ",
                      base::BytesText(*free), " left, of which ",
                      base::BytesText(floor),
                      " are kept free (mpsd --min-free-bytes): make room");
}

}  // namespace mpsd::jobs
