// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/labelled_table.h"
#include "core/data/text_classes.h"
#include "core/text/tokenizer.h"
#include "core/train/class_data.h"

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
    ASSIGN_OR_RETURN(auto encoded, Encode(train, "tokenizing training data"));
    result_.sets.train = std::move(encoded);
    absl::Status s = Add(d.eval, data::LabelUse::kRequired, "evaluation data",
                         train, result_.sets.eval);
    if (s.ok()) {
      s = Add(d.predict, data::LabelUse::kOptional, "data to predict", train,
              result_.sets.predict);
    }
    if (!s.ok()) return s;
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
    return std::min(
        spec_.training.max_length,
        config_.max_position_embeddings - config_.encoder.first_position);
  }

  absl::StatusOr<SourcePtr> Encode(const data::LabelledTable& rows,
                                   const std::string& stage) {
    data::TextClassesOptions options;
    options.max_length = MaxLength();
    // RoBERTa's tokenizers pass no types to the model, even if their template
    // has some.
    const int64_t types = config_.encoder.type_vocab_size;
    const bool typed = types > 1 || config_.model_type != "roberta";
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
    return SourcePtr(std::move(encoded));
  }

  absl::Status Add(const Files& files, data::LabelUse use, const char* what,
                   const data::LabelledTable& train, SourcePtr& source) {
    if (files.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto rows, Read(files, use, what, &train));
    ASSIGN_OR_RETURN(auto encoded,
                     Encode(rows, absl::StrCat("tokenizing ", what)));
    source = std::move(encoded);
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

}  // namespace mpsd::train
