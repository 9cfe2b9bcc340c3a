// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/start_check.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/spec/train_spec.h"

namespace mpsd::jobs {
namespace {

using Place = std::pair<const char*, std::string>;  // field of the spec, path

std::vector<Place> PlacesOf(const spec::TrainSpec& spec) {
  std::vector<Place> places = {
      {"model", spec.model},
      {"adapter", spec.adapter},
      {"training.chat_template_path", spec.training.chat_template_path}};
  const std::pair<const char*, const std::vector<std::string>&> sets[] = {
      {"dataset.train", spec.dataset.train},
      {"dataset.eval", spec.dataset.eval},
      {"dataset.predict", spec.dataset.predict}};
  for (const auto& [field, paths] : sets) {
    for (const std::string& path : paths) places.emplace_back(field, path);
  }
  return places;
}

std::string Gibibytes(int64_t bytes) {
  return absl::StrFormat("%.2f GiB", static_cast<double>(bytes) / (1 << 30));
}

}  // namespace

std::string MissingPath(const Job& job, JobFiles& files) {
  if (!files.Exists(files.SpecPath(job.id))) {
    return absl::StrCat("the job's folder ", files.Folder(job.id),
                        " is not there: it starts when it is back");
  }
  const auto spec = spec::ParseTrainSpec(job.spec_json, "job.json");
  if (!spec.ok()) return "";  // the worker reports what is wrong
  for (const auto& [field, path] : PlacesOf(*spec)) {
    if (path.empty() || files.Exists(path)) continue;
    return absl::StrCat(field, ": '", path,
                        "' was on this machine when the job was submitted and "
                        "is not now: the job starts when it is back");
  }
  return "";
}

std::string FullDisk(int64_t floor, JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free >= floor) return "";
  return absl::StrCat("the state folder's disk has ", Gibibytes(*free),
                      " left and jobs start with ", Gibibytes(floor),
                      " or more (mpsd --min-free-bytes): make room");
}

std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free - floor >= job.checkpoint_bytes) return "";
  return absl::StrCat(
      "a checkpoint of the job takes about ", Gibibytes(job.checkpoint_bytes),
      " and the state folder's disk has ", Gibibytes(*free), " left, of which ",
      Gibibytes(floor), " are kept free (mpsd --min-free-bytes): make room");
}

}  // namespace mpsd::jobs
