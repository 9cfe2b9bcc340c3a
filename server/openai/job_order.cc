// SPDX-License-Identifier: Apache-2.0
#include "server/openai/job_order.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/json_depth.h"
#include "core/base/printable.h"

namespace mpsd::openai {
namespace {

using Tree = nlohmann::json;

absl::Status Fault(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

// Whether the member is there and not null.
bool Has(const Tree& object, const char* name) {
  const auto member = object.find(name);
  return member != object.end() && !member->is_null();
}

absl::Status CheckNames(const std::string& place, const Tree& object,
                        std::initializer_list<const char*> known) {
  for (const auto& [name, value] : object.items()) {
    bool found = false;
    for (const char* one : known) found = found || name == one;
    if (found) continue;
    return Fault(
        absl::StrCat(place, place.empty() ? "" : ".", base::Quotable(name)),
        absl::StrCat("is no parameter here; there are: ",
                     absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status ReadText(const Tree& object, const char* name, std::string& out) {
  if (!Has(object, name)) return absl::OkStatus();
  if (!object[name].is_string()) return Fault(name, "expected a string");
  out = object[name].get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadWhole(const std::string& field, const Tree& object,
                       const char* name, bool has_auto,
                       std::optional<int64_t>& out) {
  if (!Has(object, name)) return absl::OkStatus();
  const Tree& value = object[name];
  if (has_auto && value == "auto") return absl::OkStatus();
  // Not beyond what an int64 has: the spec has its own bounds.
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
    return Fault(field, has_auto ? "expected \"auto\" or an integer"
                                 : "expected an integer");
  }
  out = value.get<int64_t>();
  return absl::OkStatus();
}

absl::Status ReadReal(const std::string& field, const Tree& object,
                      const char* name, std::optional<double>& out) {
  if (!Has(object, name)) return absl::OkStatus();
  const Tree& value = object[name];
  if (value == "auto") return absl::OkStatus();
  if (!value.is_number() || !std::isfinite(value.get<double>()) ||
      value.get<double>() <= 0) {
    return Fault(field, "expected \"auto\" or a number above 0");
  }
  out = value.get<double>();
  return absl::OkStatus();
}

absl::Status ReadHyperparameters(const std::string& place, const Tree& object,
                                 JobOrder& order) {
  if (!object.is_object()) return Fault(place, "expected an object");
  const auto field = [&](const char* name) {
    return absl::StrCat(place, ".", name);
  };
  absl::Status read = CheckNames(
      place, object, {"n_epochs", "batch_size", "learning_rate_multiplier"});
  if (read.ok()) {
    read = ReadReal(field("n_epochs"), object, "n_epochs", order.n_epochs);
  }
  if (read.ok()) {
    read = ReadWhole(field("batch_size"), object, "batch_size",
                     /*has_auto=*/true, order.batch_size);
  }
  if (!read.ok()) return read;
  return ReadReal(field("learning_rate_multiplier"), object,
                  "learning_rate_multiplier", order.learning_rate_multiplier);
}

absl::Status ReadMethod(const Tree& method, JobOrder& order) {
  if (!method.is_object()) return Fault("method", "expected an object");
  if (method.value("type", Tree()) != "supervised") {
    return Fault("method.type",
                 "expected \"supervised\": mpsd has no other method");
  }
  absl::Status names = CheckNames(
      "method", method, {"type", "supervised", "dpo", "reinforcement"});
  if (!names.ok() || !Has(method, "supervised")) return names;
  const Tree& supervised = method["supervised"];
  if (!supervised.is_object()) {
    return Fault("method.supervised", "expected an object");
  }
  names = CheckNames("method.supervised", supervised, {"hyperparameters"});
  if (!names.ok() || !Has(supervised, "hyperparameters")) return names;
  return ReadHyperparameters("method.supervised.hyperparameters",
                             supervised["hyperparameters"], order);
}

absl::Status ReadMetadata(const Tree& metadata, JobOrder& order) {
  if (!metadata.is_object()) return Fault("metadata", "expected an object");
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) {
      return Fault("metadata", "expected strings as values");
    }
    if (std::string_view(key).starts_with(kOwnLabels)) {
      return Fault("metadata", absl::StrCat("keys that begin with \"",
                                            kOwnLabels, "\" are mpsd's own"));
    }
    order.metadata[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Tree& body) {
  absl::Status names = CheckNames(
      "", body,
      {"model", "training_file", "validation_file", "suffix", "seed",
       "hyperparameters", "method", "metadata", "integrations", "mpsd"});
  if (!names.ok()) return names;
  for (const char* name : {"model", "training_file"}) {
    if (!Has(body, name)) return Fault(name, "is missing");
  }
  if (Has(body, "integrations") && !body["integrations"].empty()) {
    return Fault("integrations",
                 "mpsd sends nothing to others by itself; a job's folder has "
                 "TensorBoard's files (mpsctl download ID --curves)");
  }
  if (Has(body, "mpsd") && !body["mpsd"].is_object()) {
    return Fault("mpsd", "expected an object of fields of job.json");
  }
  return absl::OkStatus();
}

// A path for job.json that is one file's alone, with the name by which people
// know it and by which its format is known.
std::string PathOf(const char* folder, const jobs::NamedFile& file) {
  return absl::StrCat(folder, "/", file.name);
}

void AddInput(const std::string& path, const jobs::NamedFile& file,
              v1::SubmitRequest& request) {
  v1::InputFile& input = *request.add_inputs();
  input.set_path(path);
  input.set_sha256(file.sha256);
}

Tree TrainingOf(const JobOrder& order) {
  Tree training = {
      // OpenAI trains on what the assistant says.
      {"assistant_only_loss", true},
      {"learning_rate",
       kBaseLearningRate * order.learning_rate_multiplier.value_or(1)}};
  if (order.n_epochs) training["num_train_epochs"] = *order.n_epochs;
  if (order.seed) training["seed"] = *order.seed;
  if (order.batch_size) {
    training["per_device_train_batch_size"] = *order.batch_size;
    // A batch that was chosen elsewhere need not fit this device at once.
    training["auto_find_batch_size"] = true;
  }
  return training;
}

}  // namespace

absl::StatusOr<JobOrder> ReadJobOrder(const std::string& text) {
  const Tree body = base::ParseTree<Tree>(text);
  if (!body.is_object()) {
    return absl::InvalidArgumentError(
        "the request's body: expected a JSON object of at most 64 levels");
  }
  JobOrder order;
  absl::Status read = CheckWhole(body);
  for (const auto& [name, out] :
       {std::pair{"model", &order.model},
        std::pair{"training_file", &order.training_file},
        std::pair{"validation_file", &order.validation_file},
        std::pair{"suffix", &order.suffix}}) {
    if (read.ok()) read = ReadText(body, name, *out);
  }
  if (read.ok()) {
    read = ReadWhole("seed", body, "seed", /*has_auto=*/false, order.seed);
  }
  // The newer place of the same numbers is read last, and counts.
  if (read.ok() && Has(body, "hyperparameters")) {
    read =
        ReadHyperparameters("hyperparameters", body["hyperparameters"], order);
  }
  if (read.ok() && Has(body, "method")) {
    read = ReadMethod(body["method"], order);
  }
  if (read.ok() && Has(body, "metadata")) {
    read = ReadMetadata(body["metadata"], order);
  }
  if (!read.ok()) return read;
  if (Has(body, "mpsd")) order.more = body["mpsd"];
  return order;
}

v1::SubmitRequest ToSubmit(const JobOrder& order,
                           const jobs::NamedFile& training,
                           const jobs::NamedFile* validation,
                           const PriorJob* prior) {
  v1::SubmitRequest request;
  Tree spec = {
      {"model", order.model},
      {"lora",
       {{"r", 16}, {"lora_alpha", 32}, {"target_modules", "all-linear"}}},
      {"training", TrainingOf(order)}};
  if (!order.suffix.empty()) spec["name"] = order.suffix;
  if (prior != nullptr && prior->is_adapter) {
    spec["model"] = prior->model;
    spec["adapter"] = absl::StrCat("job:", prior->id);
    spec["lora"] = prior->lora;
  }
  const std::string train = PathOf("training", training);
  spec["dataset"]["train"] = train;
  AddInput(train, training, request);
  auto& labels = *request.mutable_labels();
  labels[kTrainingLabel] = training.id;
  if (validation != nullptr) {
    const std::string eval = PathOf("validation", *validation);
    spec["dataset"]["eval"] = eval;
    AddInput(eval, *validation, request);
    labels[kValidationLabel] = validation->id;
  }
  for (const auto& [key, value] : order.metadata) labels[key] = value;
  if (order.more.is_object()) spec.merge_patch(order.more);
  request.set_spec_json(spec.dump(-1, ' ', /*ensure_ascii=*/false,
                                  Tree::error_handler_t::replace));
  return request;
}

}  // namespace mpsd::openai
