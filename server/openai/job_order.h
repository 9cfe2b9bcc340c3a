// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_JOB_ORDER_H_
#define MPSD_SERVER_OPENAI_JOB_ORDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "mpsd/v1/jobs.pb.h"
#include "nlohmann/json.hpp"
#include "server/jobs/named_files.h"

namespace mpsd::openai {

// Labels with this beginning are the door's own.
inline constexpr char kOwnLabels[] = "openai.";
inline constexpr char kTrainingLabel[] = "openai.training_file";
inline constexpr char kValidationLabel[] = "openai.validation_file";
inline constexpr char kRequestLabel[] = "openai.request";

// The learning rate of a multiplier of 1, and of "auto": what README.md gives
// LoRA. OpenAI's own base is not public.
inline constexpr double kBaseLearningRate = 2e-4;

// What a client asks for by POST /v1/fine_tuning/jobs. Absent numbers, and
// "auto", leave job.json's defaults.
struct JobOrder {
  std::string model, training_file, validation_file, suffix;
  std::optional<int64_t> seed, batch_size;
  std::optional<double> n_epochs, learning_rate_multiplier;
  std::map<std::string, std::string> metadata;
  nlohmann::json more;  // "mpsd": fields of job.json, laid over the rest
};

// InvalidArgument, beginning with the field, for what cannot be read, for a
// field that OpenAI does not have and for one that mpsd cannot do.
absl::StatusOr<JobOrder> ReadJobOrder(const std::string& body);

// A job whose result the new one goes on from.
struct PriorJob {
  std::string id, model;
  bool is_adapter = false;
  nlohmann::json lora;  // the prior spec's, which fits its adapter
};

// The request for JobService.Submit. `training` and `validation` are the files
// that the order names; null: none.
v1::SubmitRequest ToSubmit(const JobOrder& order,
                           const jobs::NamedFile& training,
                           const jobs::NamedFile* validation,
                           const PriorJob* prior);

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_JOB_ORDER_H_
