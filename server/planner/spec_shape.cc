// SPDX-License-Identifier: Apache-2.0
#include "server/planner/spec_shape.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/json_depth.h"
#include "core/base/printable.h"

namespace mpsd::planner {
namespace {

using Json = nlohmann::json;

// JSON pointers into spec::ToJson.
constexpr const char* kOfSpeed[] = {"/task",
                                    "/fine_tune_type",
                                    "/quantization_config",
                                    "/lora/r",
                                    "/lora/target_modules",
                                    "/lora/layers_to_transform",
                                    "/lora/rank_pattern",
                                    "/lora/modules_to_save",
                                    "/training/per_device_train_batch_size",
                                    "/training/gradient_accumulation_steps",
                                    "/training/max_length",
                                    "/training/packing",
                                    "/training/padding_free",
                                    "/training/train_sampling_strategy",
                                    "/training/auto_find_batch_size",
                                    "/training/gradient_checkpointing",
                                    "/training/recompute_granularity",
                                    "/training/bf16",
                                    "/gradients"};

constexpr const char* kOfNoStep[] = {"/name",
                                     "/dataset/eval",
                                     "/dataset/predict",
                                     "/dataset/max_eval_samples",
                                     "/dataset/max_predict_samples",
                                     "/lora/lora_alpha",
                                     "/lora/use_rslora",
                                     "/lora/alpha_pattern",
                                     "/training/num_train_epochs",
                                     "/training/max_steps",
                                     "/training/per_device_eval_batch_size",
                                     "/training/learning_rate",
                                     "/training/lr_scheduler_type",
                                     "/training/warmup_steps",
                                     "/training/warmup_ratio",
                                     "/training/weight_decay",
                                     "/training/adam_beta1",
                                     "/training/adam_beta2",
                                     "/training/adam_epsilon",
                                     "/training/max_grad_norm",
                                     "/training/seed",
                                     "/training/eval_steps",
                                     "/training/save_steps",
                                     "/training/save_total_limit",
                                     "/training/logging_steps",
                                     "/training/load_best_model_at_end",
                                     "/training/metric_for_best_model",
                                     "/training/greater_is_better",
                                     "/training/early_stopping_patience",
                                     "/training/early_stopping_threshold"};

Json Tree(const spec::TrainSpec& spec) {
  return base::ParseTree<Json>(spec::ToJson(spec));
}

// "/training/max_length" as job.json's errors spell it.
std::string FieldOf(const std::string& pointer) {
  return absl::StrReplaceAll(
      pointer.substr(std::min<size_t>(1, pointer.size())), {{"/", "."}});
}

Json StepsOf(const spec::TrainSpec& spec) {
  Json tree = Tree(spec);
  for (const char* pointer : kOfNoStep) {
    const Json::json_pointer at(pointer);
    if (tree.contains(at)) tree[at] = nullptr;
  }
  return tree;
}

bool LiesIn(std::string_view path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](std::string folder) {
    if (path == folder) return true;
    if (!folder.ends_with('/')) folder += '/';
    return path.starts_with(folder);
  });
}

// The uploaded files that train the model, or are read with it.
std::map<std::string, std::string> FilesOfSteps(
    const jobs::SubmitRequest& request, const spec::TrainSpec& spec) {
  std::vector<std::string> others = spec.dataset.eval;
  others.insert(others.end(), spec.dataset.predict.begin(),
                spec.dataset.predict.end());
  std::map<std::string, std::string> files;
  for (const jobs::InputFile& input : request.inputs) {
    if (LiesIn(input.path, others) && !LiesIn(input.path, spec.dataset.train)) {
      continue;
    }
    files[input.path] = input.sha256;
  }
  return files;
}

absl::Status Differs(const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "probe_id: the probe measured another job: ", what,
      "; probe this job.json (`mpsctl plan --probe`), or leave the probe out"));
}

std::string Shown(const Json& value) {
  return base::Quotable(
      value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string SpeedShape(const spec::TrainSpec& spec) {
  const Json tree = Tree(spec);
  Json shape = Json::object();
  for (const char* pointer : kOfSpeed) {
    const Json::json_pointer at(pointer);
    if (tree.contains(at)) shape[pointer] = tree[at];
  }
  return shape.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::Status CheckSameSteps(const jobs::SubmitRequest& probed,
                            const jobs::SubmitRequest& planned) {
  const absl::StatusOr<spec::TrainSpec> before =
      spec::ParseTrainSpec(probed.spec_json, "job.json");
  // The caller has checked that it is one; the probe's may be of another
  // release.
  const absl::StatusOr<spec::TrainSpec> now =
      spec::ParseTrainSpec(planned.spec_json, "job.json");
  if (!now.ok()) return now.status();
  if (!before.ok()) return Differs("this mpsd cannot read its job.json");
  const Json a = StepsOf(*before).flatten(), b = StepsOf(*now).flatten();
  const auto value = [](const Json& flat, const std::string& pointer) {
    const auto found = flat.find(pointer);
    return found == flat.end() ? Json(nullptr) : *found;
  };
  for (const Json* side : {&a, &b}) {
    for (const auto& [pointer, ignored] : side->items()) {
      const Json was = value(a, pointer), is = value(b, pointer);
      if (was == is) continue;
      return Differs(absl::StrCat(base::Quotable(FieldOf(pointer)), " was ",
                                  Shown(was), " and is ", Shown(is)));
    }
  }
  const auto old_files = FilesOfSteps(probed, *before);
  const auto new_files = FilesOfSteps(planned, *now);
  for (const auto& [path, sha256] : new_files) {
    const auto found = old_files.find(path);
    if (found != old_files.end() && found->second == sha256) continue;
    return Differs(
        absl::StrCat("the file '", base::Quotable(path), "' is another"));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::planner
