// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/command_line.h"
#include "client/console.h"
#include "client/submit.h"
#include "mpsd/v1/plan.pb.h"
#include "mpsd/v1/study.pb.h"

// The common part of the verbs of all studies: a job.json goes to the daemon as
// a job that measures; mpsctl follows the job and shows its result.

// `mpsctl sweep`: turns a job.json and values for some of its fields into many
// jobs, or tries batch sizes in one.

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

struct StudyArguments : QueueOptions {
  ThresholdArguments thresholds = {};
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

// Queues the job.json, or a job again, as `study` (whose thresholds are filled
// in), follows the job, shows its result, and stores it in *result unless null.
// With --json only the result goes to console.out, as one object, and the job's
// progress to console.err. Returns ForVerdict, or why there is no verdict. With
// `detach` nothing is followed.
ExitCode RunStudy(const Console& console, const StudyArguments& arguments,
                  const v1::Study& study, const PrintStudy& print,
                  v1::StudyResult* result = nullptr);

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
// What to do about the findings, a line each.
void PrintAdvice(
    const google::protobuf::RepeatedPtrField<v1::Finding>& findings,
    std::ostream& out);
std::string VerdictName(v1::Verdict verdict);  // "ok", "warn", "fail", "-"

// The prompts and their answers, of a result of `mpsctl generate`.
void PrintAnswers(const v1::StudyResult& result, const Console& console);

// Where the time of a step goes: parts, blocks, the costliest operators, waits.
void PrintProfile(const v1::StudyResult& result, const Console& console);

// Plans the job and prints the plan, as `mpsctl plan`.
ExitCode PlanJob(const JobFile& job, const Console& console);

// Prints the plan as readable tables: data, steps, memory, time, disk, the
// queue, the verdict and, if the job does not fit, the nearest plans.
void PrintPlan(const v1::Plan& plan, const Console& console);

inline constexpr size_t kSweepJobs = 500;  // of one sweep
// The label with the sweep's name.
inline constexpr char kSweepLabel[] = "sweep";

// SplitMix64 (Steele, Lea, Flood 2014). The standard library's distributions
// differ between platforms, and a seed must give the same jobs everywhere.
class RandomDraw {
 public:
  explicit RandomDraw(int64_t seed) : state_(static_cast<uint64_t>(seed)) {}

  uint64_t Bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double Share() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  // Each number in [0, count) equally likely; count > 0.
  uint64_t Below(uint64_t count) {
    const uint64_t most = UINT64_MAX - UINT64_MAX % count;
    uint64_t bits = Bits();
    while (bits >= most) bits = Bits();
    return bits % count;
  }

 private:
  uint64_t state_;
};

using Choices = std::vector<std::string>;  // JSON of each value
// From the lower to the higher number, equally likely.
struct Uniform {
  double low = 0, high = 0;
};
// Uniform in the logarithm.
struct LogUniform {
  double low = 0, high = 0;
};
// low, low + 1, …, high.
struct Integers {
  int64_t low = 0, high = 0;
};

// A field of job.json, "training.learning_rate", and its values.
struct SweepField {
  std::string field;
  std::variant<Choices, Uniform, LogUniform, Integers> values;
};

// Reads a field and its values, as --grid and --random take them:
//
//   lora.r=8,16                         these values: JSON, or else texts
//   lora.target_modules=["q","v"],"all-linear"    commas within JSON are JSON's
//   lora.lora_dropout=uniform(0,0.1)    numbers between these
//   training.learning_rate=log(1e-5,1e-3)         the same in the logarithm
//   training.seed=int(1,100)            integers from the first to the last
//
// InvalidArgument quotes the text and says what was expected.
absl::StatusOr<SweepField> ParseSweepField(const std::string& text);

// The values of each job, as JSON in the order of `fields`. A grid has every
// combination, the last field's values varying fastest. A draw has `count`
// distinct combinations, the same for the same seed on every machine.
// InvalidArgument for more than kSweepJobs, for no field, for one that is named
// twice or within another one, for a range in a grid, and for fewer
// combinations than `count`.
absl::StatusOr<std::vector<std::vector<std::string>>> ExpandGrid(
    absl::Span<const SweepField> fields);
absl::StatusOr<std::vector<std::vector<std::string>>> DrawValues(
    absl::Span<const SweepField> fields, size_t count, int64_t seed);

// A job of a sweep.
struct SweepJob {
  std::string spec_json;
  std::map<std::string, std::string> labels;  // the sweep's, and each value
  std::string values;                         // "learning_rate=0.0001 r=8"
};

// Makes the jobs of the sweep `name`: `spec_json` with each combination of
// values. InvalidArgument names the first job that no daemon would accept.
absl::StatusOr<std::vector<SweepJob>> MakeSweepJobs(
    const std::string& spec_json, const std::string& name,
    absl::Span<const SweepField> fields,
    absl::Span<const std::vector<std::string>> combinations);

// A table of the batches, above the findings; nothing for another study.
void PrintBatchSweep(const v1::StudyResult& result, const Console& console);

// One line per batch, below a header line.
std::string BatchSweepCsv(const v1::BatchSweepResult& sweep);

}  // namespace mpsd::client
