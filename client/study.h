// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_STUDY_H_
#define MPSD_CLIENT_STUDY_H_

#include <google/protobuf/map.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/command_line.h"
#include "client/console.h"
#include "mpsd/v1/study.pb.h"

// The common part of the verbs of all studies: a job.json goes to the daemon as
// a job that measures; mpsctl follows the job and shows its result.

namespace mpsd::client {

// A check for CLI11: an option with an empty value, as of a script's empty
// variable, is not an omitted option. Returns "" if `text` is fine.
inline std::string Given(const std::string& text) {
  return text.empty() ? "expected a value, got an empty string" : "";
}

struct ThresholdArguments {
  std::string file;                 // TOML
  std::vector<std::string> values;  // NAME=VALUE, each before the file's
};

struct StudyArguments {
  std::string job_file;
  int32_t priority = 0;
  std::vector<std::string> job_labels;
  bool detach = false;
  bool anyway = false;
  bool rehash = false;
  ThresholdArguments thresholds;
};

// Adds --threshold and --thresholds to `verb`.
void DeclareThresholds(Command& verb, ThresholdArguments* arguments);
// Adds the file's and the options' thresholds to a request; InvalidArgument
// with the file and the line, or the option.
absl::Status AddThresholds(const ThresholdArguments& arguments,
                           google::protobuf::Map<std::string, double>* out);

// Adds the positional JOB and all options of StudyArguments to `verb`.
void DeclareStudy(Command& verb, StudyArguments* arguments);

// Prints what only one kind of study has, above the findings.
using PrintStudy =
    std::function<void(const v1::StudyResult& result, const Console& console)>;

// Queues the job.json as `study` and follows the job, as RunStudy does; then
// fetches its result. kOk once there is one, whatever its verdict; with
// `detach` once the job is queued.
ExitCode FindOut(const Console& console, const StudyArguments& arguments,
                 const v1::Study& study, v1::StudyResult* result);

// Queues the job.json as `study` (whose thresholds are filled in), follows the
// job, and shows its result. With --json only the result goes to console.out,
// as one object, and the job's progress to console.err. Returns ForVerdict, or
// why there is no verdict. With `detach` nothing is followed.
ExitCode RunStudy(const Console& console, const StudyArguments& arguments,
                  const v1::Study& study, const PrintStudy& print);

// Prints what only the study's kind has: each verb's own printer.
void PrintAnyStudy(const v1::StudyResult& result, const Console& console);

// Shows a result: what `print` prints, the findings and the verdict, or one
// object of JSON. Returns ForVerdict.
ExitCode ShowStudy(const Console& console, const v1::StudyResult& result,
                   const PrintStudy& print);
// The result of a study that has SUCCEEDED.
grpc::Status GetStudyResult(const Console& console, const std::string& job_id,
                            v1::StudyResult* result);

// A table of the findings, with what to do; prints nothing if there are none.
void PrintFindings(
    const google::protobuf::RepeatedPtrField<v1::Finding>& findings,
    std::ostream& out);
std::string VerdictName(v1::Verdict verdict);  // "ok", "warn", "fail", "-"

// A table of the epochs, above the findings; nothing for another study.
void PrintSmoke(const v1::StudyResult& result, const Console& console);

// The measurements of a probe, above its findings; nothing for another study.
void PrintProbe(const v1::StudyResult& result, const Console& console);

// Prints the times of both devices and the decision; `result` is one of
// compare-devices.
void PrintDeviceComparison(const v1::StudyResult& result,
                           const Console& console);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_STUDY_H_
