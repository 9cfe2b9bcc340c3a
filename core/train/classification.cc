// SPDX-License-Identifier: Apache-2.0
#include "core/train/classification.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/data/image_list.h"
#include "core/data/image_set.h"
#include "core/data/processor.h"
#include "core/data/row_errors.h"
#include "core/data/text_classes.h"
#include "core/lora/peft_folder.h"
#include "core/model/losses.h"
#include "core/text/tokenizer.h"
#include "core/train/data_reader.h"

namespace mpsd::train {
namespace {

using Files = std::vector<std::string>;
using SourcePtr = std::unique_ptr<data::Source>;

class TextLoader {
 public:
  TextLoader(const spec::TrainSpec& spec, spec::ModelConfig& config,
             const text::Tokenizer& tokenizer, Observer& observer)
      : spec_(spec),
        config_(config),
        tokenizer_(tokenizer),
        observer_(observer) {}

  absl::StatusOr<ClassData> Load() {
    const spec::DatasetSpec& d = spec_.dataset;
    ASSIGN_OR_RETURN(auto train, Read(d.train, data::LabelUse::kRequired,
                                      "training data", nullptr));
    RETURN_IF_ERROR(Decide(train));
    ASSIGN_OR_RETURN(result_.sets.train, Encode(train, "training data"));
    RETURN_IF_ERROR(Add(d.eval, data::LabelUse::kRequired, "evaluation data",
                        train, result_.sets.eval));
    RETURN_IF_ERROR(Add(d.predict, data::LabelUse::kOptional, "data to predict",
                        train, result_.sets.predict));
    return std::move(result_);
  }

 private:
  absl::StatusOr<data::LabelledTable> Read(const Files& files,
                                           data::LabelUse use, const char* what,
                                           const data::LabelledTable* train) {
    observer_.OnStage(absl::StrCat("reading ", what), 0);
    return data::ReadLabelledTable(files, spec_.dataset, use, train);
  }

  absl::Status Decide(const data::LabelledTable& rows) {
    std::vector<std::string> warnings;
    ASSIGN_OR_RETURN(auto class_labels,
                     data::DecideClassLabels(
                         rows.label_values, rows.places(), spec_.classification,
                         spec::FindGlueTask(spec_.dataset.task_name),
                         config_.head, &warnings));
    observer_.OnWarnings(warnings);
    result_.class_labels = std::move(class_labels);
    return absl::OkStatus();
  }

  // Texts are cut to the model's positions.
  int64_t MaxLength() const {
    return std::min(spec_.training.max_length, config_.max_row_tokens());
  }

  absl::StatusOr<SourcePtr> Encode(const data::LabelledTable& rows,
                                   const std::string& what) {
    const std::string stage = absl::StrCat("tokenizing ", what);
    data::TextClassesOptions options;
    options.max_length = MaxLength();
    // RoBERTa's tokenizers pass no types to the model, even if their template
    // has some.
    const int64_t types = config_.encoder.type_vocab_size;
    const bool typed = types > 1 || config_.encoder.network != "roberta";
    options.tables = {config_.vocab_size, typed ? types : 0};
    options.pad_id = data::PaddingWithin(
        static_cast<int32_t>(config_.pad_token_id.value_or(0)), options.tables);
    options.token_types = config_.encoder.type_vocab_size > 1;
    ASSIGN_OR_RETURN(auto encoded, data::EncodeTextClasses(
                                       rows, result_.class_labels, tokenizer_,
                                       options, [&](double share) {
                                         observer_.OnStage(stage, share);
                                       }));
    const data::DatasetStats& stats = encoded->stats();
    observer_.OnStage(
        absl::StrCat(stats.rows, " rows, ", stats.tokens, " tokens; ",
                     stats.truncated_rows, " rows cut to ", options.max_length,
                     " tokens"),
        1);
    observer_.OnWarnings(
        data::LostRows(stats, what, "a column is missing", options.max_length));
    return SourcePtr(std::move(encoded));
  }

  absl::Status Add(const Files& files, data::LabelUse use, const char* what,
                   const data::LabelledTable& train, SourcePtr& source) {
    if (files.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto rows, Read(files, use, what, &train));
    ASSIGN_OR_RETURN(source, Encode(rows, what));
    return absl::OkStatus();
  }

  const spec::TrainSpec& spec_;
  spec::ModelConfig& config_;
  const text::Tokenizer& tokenizer_;
  Observer& observer_;
  ClassData result_;
};

}  // namespace

absl::StatusOr<ClassData> LoadTextClasses(const spec::TrainSpec& spec,
                                          const std::string& model_folder,
                                          spec::ModelConfig& config,
                                          Observer& observer) {
  ASSIGN_OR_RETURN(auto tokenizer, text::Tokenizer::FromFolder(model_folder));
  if (!config.pad_token_id) {
    config.pad_token_id =
        tokenizer->pad_id().value_or(tokenizer->eos_id().value_or(0));
  }
  return TextLoader(spec, config, *tokenizer, observer).Load();
}

namespace {

class ImageLoader {
 public:
  ImageLoader(const spec::TrainSpec& spec, const spec::ModelConfig& config,
              image::Processor processor, Observer& observer)
      : spec_(spec),
        config_(config),
        processor_(std::move(processor)),
        observer_(observer) {}

  absl::StatusOr<ClassData> Load() {
    const spec::DatasetSpec& d = spec_.dataset;
    WarnOfIdleColumns();
    result_.files["preprocessor_config.json"] =
        image::ToJson(processor_.config());
    ASSIGN_OR_RETURN(
        auto train,
        List(d.train, true,
             d.validation_split > 0 ? std::nullopt : d.max_train_samples,
             "training images"));
    RETURN_IF_ERROR(Decide(train));
    RETURN_IF_ERROR(
        Add(std::move(train), &result_.class_labels, result_.sets.train));
    if (!d.eval.empty()) {
      ASSIGN_OR_RETURN(auto eval, List(d.eval, true, d.max_eval_samples,
                                       "evaluation images"));
      RETURN_IF_ERROR(
          Add(std::move(eval), &result_.class_labels, result_.sets.eval));
    }
    if (!d.predict.empty()) {
      ASSIGN_OR_RETURN(
          auto predict,
          List(d.predict, false, d.max_predict_samples, "images to predict"));
      RETURN_IF_ERROR(Add(std::move(predict), nullptr, result_.sets.predict));
    }
    return std::move(result_);
  }

 private:
  // Folders of images have no columns to name.
  void WarnOfIdleColumns() {
    const spec::DatasetSpec& d = spec_.dataset;
    for (const Files* paths : {&d.train, &d.eval, &d.predict}) {
      if (std::any_of(paths->begin(), paths->end(), image::HasRows)) return;
    }
    for (const auto& [field, column] : {std::pair{"image", &d.image_column},
                                        std::pair{"label", &d.label_column}}) {
      if (column->empty()) continue;
      observer_.OnWarning(absl::StrCat(
          "dataset.", field,
          "_column has no effect: image folders and .safetensors files have no "
          "columns"));
    }
  }

  // The limit takes one image of each class in turn, so it is applied here. A
  // split comes before the limit: then SplitAndLimit applies both.
  absl::StatusOr<image::ImageList> List(const Files& paths, bool labels_needed,
                                        const std::optional<int64_t>& limit,
                                        const char* what) {
    observer_.OnStage(absl::StrCat("reading ", what), 0);
    image::ListOptions options;
    options.image_column = spec_.dataset.image_column;
    options.label_column = spec_.dataset.label_column;
    options.labels_needed = labels_needed;
    options.max_samples = limit;
    auto list = image::ListImages(paths, options);
    if (list.ok()) {
      observer_.OnStage(absl::StrCat(list->entries.size(), " images"), 1);
    }
    return list;
  }

  absl::Status Decide(const image::ImageList& list) {
    std::vector<std::string> warnings;
    ASSIGN_OR_RETURN(
        auto class_labels,
        data::DecideClassLabels(image::LabelValues(list), image::PlacesOf(list),
                                spec_.classification, nullptr, config_.head,
                                &warnings));
    observer_.OnWarnings(warnings);
    result_.class_labels = std::move(class_labels);
    return absl::OkStatus();
  }

  absl::Status Add(image::ImageList list, const data::ClassLabels* class_labels,
                   SourcePtr& source) {
    image::ImageSetOptions options;
    options.augmentation = spec_.augmentation;
    ASSIGN_OR_RETURN(
        source, image::ImageSet::Make(std::move(list), class_labels, processor_,
                                      options));
    return absl::OkStatus();
  }

  const spec::TrainSpec& spec_;
  const spec::ModelConfig& config_;
  const image::Processor processor_;
  Observer& observer_;
  ClassData result_;
};

}  // namespace

absl::StatusOr<ClassData> LoadImages(const spec::TrainSpec& spec,
                                     const std::string& model_folder,
                                     const spec::ModelConfig& config,
                                     Observer& observer) {
  ASSIGN_OR_RETURN(auto processor,
                   image::Processor::Read(model_folder, config.vision));
  return ImageLoader(spec, config, std::move(processor), observer).Load();
}

lora::AdapterLabels AdapterLabelsOf(const data::ClassLabels& class_labels) {
  return {std::string(spec::ToString(class_labels.problem)),
          class_labels.names};
}

namespace {

// Refuses labels in another order than that of the head that is trained on.
absl::Status CheckLabels(const lora::AdapterLabels& before,
                         const data::ClassLabels& now) {
  if (AdapterLabelsOf(now) == before) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "adapter: its head was trained for ", before.problem_type, " of ",
      absl::StrJoin(before.names, ", "),
      " in this order (labels.json), and this job has other labels",
      data::ContentsShown() ? ": " + absl::StrJoin(now.names, ", ") : "",
      "; give classification.label_names and problem_type as the adapter's and "
      "data with these labels, or leave adapter out"));
}

}  // namespace

absl::StatusOr<TaskData> Classification::LoadData(
    const std::string& model_folder, spec::ModelConfig& config,
    Observer& observer) {
  std::optional<lora::AdapterLabels> before;
  if (!spec_.adapter.empty()) {
    ASSIGN_OR_RETURN(before, lora::ReadLabels(spec_.adapter));
  }
  spec::TrainSpec spec = spec_;
  if (before) {
    // The adapter's head replaces the model's.
    config.head.label_names = before->names;
    using enum spec::ProblemType;
    for (const auto problem : {kSingleLabel, kMultiLabel, kRegression}) {
      if (spec_.classification.problem_type) break;
      if (spec::ToString(problem) != before->problem_type) continue;
      spec.classification.problem_type = problem;
    }
  }
  ASSIGN_OR_RETURN(auto data,
                   spec.task == spec::Task::kImageCls
                       ? LoadImages(spec, model_folder, config, observer)
                       : LoadTextClasses(spec, model_folder, config, observer));
  class_labels_ = std::move(data.class_labels);
  files_ = std::move(data.files);
  if (before) RETURN_IF_ERROR(CheckLabels(*before, class_labels_));
  config.num_labels = class_labels_.outputs();
  RETURN_IF_ERROR(SplitAndLimit(spec_, data.sets));
  return std::move(data.sets);
}

absl::StatusOr<std::unique_ptr<model::Network>> Classification::LoadModel(
    const model::WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  ASSIGN_OR_RETURN(auto loaded,
                   model::Classifier::Load(source, config, progress));
  classifier_ = loaded.get();
  if (!class_labels_.weights.empty()) {
    class_weights_ = at::tensor(class_labels_.weights, at::kDouble)
                         .to(at::kFloat)
                         .to(source.device);
  }
  return std::unique_ptr<model::Network>(std::move(loaded));
}

StepInputs Classification::Inputs(std::span<const data::Batch> batches,
                                  const device::Device& device) const {
  return ClassInputs(batches, class_labels_.outputs(), device);
}

BatchLoss Classification::Loss(const BatchInputs& inputs) const {
  base::Check(classifier_ != nullptr, "LoadModel comes before Loss");
  BatchLoss loss;
  const at::Tensor logits = classifier_->Logits(inputs.classifier);
  if (inputs.targets.defined()) {
    loss.sum = model::SumClassLoss(class_labels_.problem, logits,
                                   inputs.targets, class_weights_);
  }
  loss.logits = logits.detach().to(at::kFloat);
  return loss;
}

metrics::Values Classification::Metrics(
    double, const metrics::Predictions& predictions) const {
  return metrics::Compute(predictions, spec_.dataset.task_name);
}

std::vector<std::string> Classification::MetricNames() const {
  return metrics::MetricNames(class_labels_.problem, class_labels_.outputs(),
                              spec_.dataset.task_name);
}

}  // namespace mpsd::train
