// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_RUN_FOLDER_H_
#define MPSD_CORE_TRAIN_RUN_FOLDER_H_

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/report/report.h"
#include "core/report/event_file.h"

namespace mpsd::train {

// A run's output folder:
//   metrics.jsonl     one object per optimizer step
//   eval.jsonl        one object per evaluation
//   runs/             the same as curves: event files of TensorBoard, one per
//                     attempt
//   checkpoints/step-N/
//   adapter/ or model/    the result: a PEFT folder, or a whole model
//   predictions.jsonl, predictions.tsv, confusion_matrix.json    of classifiers
//   run.json          the manifest
class RunFolder {
 public:
  // Creates `path` if missing. Truncates both logs to the steps up to `step`
  // and the evaluations up to that of `eval_step` (-1: none), so that a resumed
  // run leaves one line per step and evaluation. Errors in runs/ do not stop
  // the run: curves_status() reports them.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(
      const std::filesystem::path& path, int64_t step, int64_t eval_step);

  const std::filesystem::path& path() const { return path_; }
  const absl::Status& curves_status() const { return curves_status_; }

  absl::Status Append(const report::Progress& progress);
  absl::Status Append(const report::Evaluated& evaluated);

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, CloseFile>;
  RunFolder() = default;
  absl::Status OpenLog(const std::string& name, int64_t step, File& file);

  std::filesystem::path path_;
  File metrics_, evals_;
  std::unique_ptr<tensorboard::EventFile> curves_;  // null: not written
  absl::Status curves_status_;
};

// A report as one JSON line, without newline. A step's members come in the
// order of this file; an evaluation's metrics appear as "eval_NAME" next to its
// other members.
std::string ToJsonLine(const report::Progress& progress);
std::string ToJsonLine(const report::Evaluated& evaluated);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_RUN_FOLDER_H_
