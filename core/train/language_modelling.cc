// SPDX-License-Identifier: Apache-2.0
#include "core/train/language_modelling.h"

#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/data/dataset.h"
#include "core/data/token_cache.h"
#include "core/model/head_loss.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "core/train/inputs.h"
#include "core/train/parts.h"

namespace mpsd::train {
namespace {

using SourcePtr = std::unique_ptr<data::Source>;

// Says what is worth knowing of a data set.
void Report(const data::DatasetStats& stats, Observer& observer) {
  observer.OnStage(
      absl::StrCat(stats.rows, " rows, ", stats.tokens, " tokens, ",
                   stats.label_tokens, " of them labels; ",
                   stats.truncated_rows, " rows cut to max_length, ",
                   stats.dropped_rows, " dropped for having no label"),
      1);
  if (stats.prompt_mismatch_rows > 0) {
    observer.OnWarning(
        absl::StrCat("in ", stats.prompt_mismatch_rows,
                     " rows the prompt alone is tokenized otherwise than "
                     "before its completion; the model will meet tokens it was "
                     "not trained on"));
  }
}

// The tokenizer and, where the folder has one, the chat template.
struct Text {
  std::string folder;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat;
};

absl::StatusOr<Text> ReadText(const std::string& folder,
                              const spec::TrainingSpec& training) {
  Text text;
  text.folder = folder;
  auto tokenizer = text::Tokenizer::FromFolder(folder);
  if (!tokenizer.ok()) return tokenizer.status();
  text.tokenizer = *std::move(tokenizer);
  if (text.tokenizer->has_chat_template()) {
    const bool assistant = training.assistant_only_loss.value_or(false);
    auto chat = text::ChatTemplate::FromFolder(
        folder, assistant ? text::TemplateUse::kAssistantLoss
                          : text::TemplateUse::kAsIs);
    if (!chat.ok()) return chat.status();
    text.chat = *std::move(chat);
  }
  return text;
}

absl::StatusOr<SourcePtr> Load(const std::vector<std::string>& files,
                               const spec::TrainingSpec& training,
                               const Text& text,
                               const std::filesystem::path& cache,
                               Observer& observer, const char* stage) {
  data::LoadOptions options;
  options.max_length = training.max_length;
  options.assistant_only_loss = training.assistant_only_loss;
  options.completion_only_loss = training.completion_only_loss;
  options.pad_id =
      text.tokenizer->pad_id().value_or(text.tokenizer->eos_id().value_or(0));
  auto loaded = data::LoadCachedDataset(
      files, options, text.folder, *text.tokenizer, text.chat.get(), cache,
      [&](double fraction) { observer.OnStage(stage, fraction); },
      [&](const std::string& what) { observer.OnWarning(what); });
  if (!loaded.ok()) return loaded.status();
  Report(loaded->stats(), observer);
  return std::make_unique<data::Dataset>(*std::move(loaded));
}

}  // namespace

absl::StatusOr<TaskData> LanguageModelling::LoadData(
    const std::string& model_folder, spec::ModelConfig&) {
  auto text = ReadText(model_folder, spec_.training);
  if (!text.ok()) return text.status();
  const spec::DatasetSpec& d = spec_.dataset;
  TaskData data;
  auto train = Load(d.train, spec_.training, *text, cache_folder_, observer_,
                    "reading training data");
  if (!train.ok()) return train.status();
  data.train = *std::move(train);
  if (!d.eval.empty()) {
    auto eval = Load(d.eval, spec_.training, *text, cache_folder_, observer_,
                     "reading evaluation data");
    if (!eval.ok()) return eval.status();
    data.eval = *std::move(eval);
  }
  if (absl::Status s = TakeParts(spec_, data); !s.ok()) return s;
  return data;
}

absl::StatusOr<std::unique_ptr<model::Network>> LanguageModelling::LoadModel(
    const model::WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  auto loaded = model::Decoder::Load(source, config, progress);
  if (!loaded.ok()) return loaded.status();
  decoder_ = loaded->get();
  return std::unique_ptr<model::Network>(*std::move(loaded));
}

BatchLoss LanguageModelling::Loss(const data::Batch& batch,
                                  at::Device device) const {
  const ModelInputs inputs = MakeInputs(batch, device);
  if (inputs.labels.count == 0) return {};
  return {model::SumCrossEntropy(decoder_->Hidden(inputs.decoder),
                                 decoder_->head(), inputs.labels),
          {}};
}

std::unique_ptr<GradientPath> LanguageModelling::MakeGradientPath(
    optim::Trainable& trainable, device::Device& device) const {
  if (spec_.gradients == spec::Gradients::kAutograd) {
    return MakeAutogradPath(*this, trainable, device);
  }
  return MakeDecoderPath(*this, *decoder_, trainable, device);
}

metrics::Values LanguageModelling::Metrics(double loss,
                                           const metrics::Predictions&) const {
  return {{"perplexity", metrics::Perplexity(loss)}};
}

std::vector<std::string> LanguageModelling::MetricNames() const {
  return {"perplexity"};
}

}  // namespace mpsd::train
