// SPDX-License-Identifier: Apache-2.0
#include "core/train/language_modelling.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/data/token_cache.h"
#include "core/data/token_dataset.h"
#include "core/full/model_folder.h"
#include "core/model/losses.h"
#include "core/spec/generation.h"
#include "core/spec/job_layers.h"
#include "core/text/chat_template.h"
#include "core/text/folder.h"
#include "core/text/tokenizer.h"
#include "core/train/data_reader.h"

namespace mpsd::train {
namespace {

using SourcePtr = std::unique_ptr<data::Source>;

// Reports the counts of a data set. Warns of many dropped or cut rows, and of
// prompts that are tokenized differently alone than before their completion.
void Report(const data::DatasetStats& stats, const std::string& what,
            int64_t max_length, Observer& observer) {
  observer.OnStage(
      absl::StrCat(stats.rows, " rows, ", stats.tokens, " tokens, ",
                   stats.label_tokens, " of them labels; ",
                   stats.truncated_rows, " rows cut to max_length, ",
                   stats.dropped_rows, " dropped for having no label"),
      1);
  observer.OnWarnings(data::LostRows(stats, what, "no label", max_length));
  if (stats.prompt_mismatch_rows > 0) {
    observer.OnWarning(absl::StrCat(
        "in ", stats.prompt_mismatch_rows,
        " rows the prompt alone is tokenized differently than before its "
        "completion; the model will see tokens it was not trained on"));
  }
}

// The tokenizer and, if the folder has one, the chat template.
struct Text {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat;
};

text::TextOverrides OverridesOf(const spec::TrainingSpec& training) {
  return {training.chat_template_path, training.eos_token};
}

data::LanguageRowFormat RowsOf(const spec::DatasetSpec& dataset) {
  return {dataset.messages_column, dataset.prompt_column,
          dataset.completion_column,
          dataset.text_columns.empty() ? "" : dataset.text_columns[0],
          dataset.format};
}

absl::StatusOr<Text> ReadText(const std::string& folder,
                              const spec::TrainingSpec& training) {
  Text text;
  const text::TextOverrides overrides = OverridesOf(training);
  ASSIGN_OR_RETURN(auto tokenizer,
                   text::Tokenizer::FromFolder(folder, overrides));
  text.tokenizer = std::move(tokenizer);
  if (text.tokenizer->has_chat_template()) {
    const bool assistant = training.assistant_only_loss.value_or(false);
    ASSIGN_OR_RETURN(text.chat,
                     text::ChatTemplate::FromFolder(
                         folder,
                         assistant ? text::TemplateUse::kAssistantLoss
                                   : text::TemplateUse::kAsIs,
                         overrides));
  }
  return text;
}

// Reads the data sets. The tokenizer is read only when a set has to be
// tokenized: a set from the cache needs none.
class RowLoader {
 public:
  // `text_id`: OverridesId of the job.
  RowLoader(const spec::TrainSpec& spec, std::string folder,
            std::string text_id, int64_t vocab_size,
            const std::filesystem::path& cache, Observer& observer)
      : training_(spec.training),
        folder_(std::move(folder)),
        cache_(cache),
        observer_(observer) {
    options_.max_length = training_.max_length;
    options_.assistant_only_loss = training_.assistant_only_loss;
    options_.completion_only_loss = training_.completion_only_loss;
    options_.rows = RowsOf(spec.dataset);
    options_.rows.preferences = spec.preference.enabled();
    options_.text_id = std::move(text_id);
    options_.tables.tokens = vocab_size;
  }

  absl::StatusOr<SourcePtr> Load(const std::vector<std::string>& files,
                                 const std::string& what) {
    const std::string stage = absl::StrCat("reading ", what);
    observer_.OnStage(stage, 0);
    ASSIGN_OR_RETURN(auto loaded, data::LoadCachedTokens(
                                      files, options_, folder_, cache_,
                                      [&] { return Tokenize(files, stage); },
                                      [&](const std::string& text) {
                                        observer_.OnWarning(text);
                                      }));
    Report(loaded.stats(), what, options_.max_length, observer_);
    return std::make_unique<data::TokenDataset>(std::move(loaded));
  }

 private:
  absl::StatusOr<data::TokenDataset> Tokenize(
      const std::vector<std::string>& files, const std::string& stage) {
    if (!text_.tokenizer) {
      ASSIGN_OR_RETURN(text_, ReadText(folder_, training_));
    }
    const text::Tokenizer& tokenizer = *text_.tokenizer;
    options_.pad_id =
        data::PaddingWithin(tokenizer.pad_id().value_or(
                                tokenizer.eos_id().value_or(options_.pad_id)),
                            options_.tables);
    return data::LoadTokenDataset(
        files, options_, tokenizer, text_.chat.get(),
        [&](double fraction) { observer_.OnStage(stage, fraction); });
  }

  const spec::TrainingSpec& training_;
  const std::string folder_;
  const std::filesystem::path& cache_;
  Observer& observer_;
  data::TokenizeOptions options_;
  Text text_;
};

// Whether a template may show more of the time than the day.
bool ShowsTimeOfDay(absl::string_view source) {
  const std::vector<absl::string_view> calls =
      absl::StrSplit(source, "strftime_now(");
  for (size_t i = 1; i < calls.size(); ++i) {
    const absl::string_view call = absl::StripLeadingAsciiWhitespace(calls[i]);
    const char quote = call.empty() ? '\0' : call[0];
    if (quote != '"' && quote != '\'') return true;
    const absl::string_view format = call.substr(1, call.find(quote, 1) - 1);
    for (size_t at = 0; (at = format.find('%', at)) != format.npos; at += 2) {
      if (at + 1 < format.size() && format[at + 1] == '-') ++at;
      if (at + 1 == format.size() ||
          !absl::StrContains("aAbBCdDeFgGhjmuUVwWxyY%", format[at + 1])) {
        return true;
      }
    }
  }
  return false;
}

// OverridesId of the job, and the day or the time if one of its templates shows
// it: a set of tokens is then for it alone.
absl::StatusOr<std::string> TextId(const std::string& folder,
                                   const text::TextOverrides& overrides,
                                   absl::Time started_at) {
  ASSIGN_OR_RETURN(auto id, text::OverridesId(folder, overrides));
  ASSIGN_OR_RETURN(const auto text, text::ReadFolderText(folder, overrides));
  for (const auto& [name, source] : text.chat_templates) {
    if (!absl::StrContains(source, "strftime_now")) continue;
    absl::StrAppend(&id, " of ",
                    absl::FormatTime(ShowsTimeOfDay(source) ? absl::RFC3339_full
                                                            : "%Y-%m-%d",
                                     started_at, absl::LocalTimeZone()));
  }
  return id;
}

}  // namespace

absl::StatusOr<TaskData> LanguageModelling::LoadData(
    const std::string& model_folder, spec::ModelConfig& config,
    Observer& observer) {
  text::SetTemplateTime(absl::ToUnixMicros(started_at_));
  ASSIGN_OR_RETURN(
      auto text_id,
      TextId(model_folder, OverridesOf(spec_.training), started_at_));
  RowLoader loader(spec_, model_folder, std::move(text_id), config.vocab_size,
                   cache_folder_, observer);
  const spec::DatasetSpec& d = spec_.dataset;
  TaskData data;
  ASSIGN_OR_RETURN(auto train, loader.Load(d.train, "training data"));
  data.train = std::move(train);
  if (!d.eval.empty()) {
    ASSIGN_OR_RETURN(data.eval, loader.Load(d.eval, "evaluation data"));
  }
  if (spec_.training.assistant_only_loss.value_or(false)) {
    const auto chat = text::ChatTemplate::FromFolder(
        model_folder, text::TemplateUse::kAssistantLoss,
        OverridesOf(spec_.training));
    if (chat.ok() && !(*chat)->LabelsEndOfTurn()) {
      observer.OnWarning(
          "training.assistant_only_loss: the chat template's {% generation %} "
          "block ends before the end of the turn, so that no label teaches the "
          "model to stop; move what ends a turn ({{ eos_token }}) into it");
    }
  }
  int64_t prompts = data.train->stats().prompt_rows;
  if (data.eval != nullptr) prompts += data.eval->stats().prompt_rows;
  if (spec_.training.completion_only_loss.has_value() && prompts == 0) {
    observer.OnWarning(
        "training.completion_only_loss has no effect: no row has a prompt and "
        "a completion");
  }
  RETURN_IF_ERROR(SplitAndLimit(spec_, data));
  RETURN_IF_ERROR(ReadSamplePrompts(model_folder, config));
  return data;
}

absl::Status LanguageModelling::ReadSamplePrompts(
    const std::string& model_folder, const spec::ModelConfig& config) {
  const spec::TrainingSpec& t = spec_.training;
  if (t.sample_prompts.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto text, generate::PromptText::Read(
                                  model_folder, OverridesOf(t), false));
  std::vector<std::string> ignored;
  ASSIGN_OR_RETURN(auto of_model,
                   spec::ReadGenerationSettings(model_folder, ignored));
  spec::GenerationSettings settings;
  settings.max_new_tokens = t.sample_max_new_tokens;
  settings.eos_token_id = std::move(of_model.eos_token_id);
  text.AddEnd(settings.eos_token_id);
  const int64_t most =
      std::min(config.max_row_tokens(),
               backend::TraitsOf(spec_.device).max_sum.value_or(1 << 20));
  std::vector<generate::Ids> prompts;
  for (const spec::Prompt& prompt : t.sample_prompts) {
    auto ids = text.Encode(prompt, t.sample_max_new_tokens, most);
    if (!ids.ok()) {
      return absl::Status(
          ids.status().code(),
          absl::StrCat("training.sample_prompts[", prompts.size(),
                       "]: ", ids.status().message()));
    }
    prompts.push_back(*std::move(ids));
  }
  samples_.emplace(
      Samples{std::move(text), {std::move(settings)}, std::move(prompts)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> LanguageModelling::AnswerSamplePrompts(
    device::Device& device, const std::function<bool(double)>& go_on) const {
  std::vector<std::string> texts;
  if (!samples_) return texts;
  ASSIGN_OR_RETURN(const auto answers,
                   generate::AllAnswers(*decoder_, device, samples_->generation,
                                        samples_->prompts, go_on));
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSIGN_OR_RETURN(
        texts.emplace_back(),
        samples_->text.Decode(samples_->prompts[i], answers[i].ids));
  }
  return texts;
}

absl::Status LanguageModelling::CompleteResult(
    const std::string& model_folder,
    const std::filesystem::path& folder) const {
  const text::TextOverrides overrides = OverridesOf(spec_.training);
  if (overrides.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(full::CopyText(model_folder, folder));
  ASSIGN_OR_RETURN(auto tokenizer,
                   text::Tokenizer::FromFolder(model_folder, overrides));
  return text::WriteOverrides(model_folder, overrides, tokenizer->eos_id(),
                              folder);
}

absl::StatusOr<std::unique_ptr<model::Network>> LanguageModelling::LoadModel(
    const model::WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  ASSIGN_OR_RETURN(auto loaded, model::Decoder::Load(source, config, progress));
  decoder_ = loaded.get();
  return std::unique_ptr<model::Network>(std::move(loaded));
}

StepInputs LanguageModelling::Inputs(std::span<const data::Batch> batches,
                                     const device::Device& device) const {
  return LanguageInputs(batches, device);
}

BatchLoss LanguageModelling::Loss(const BatchInputs& inputs) const {
  base::Check(decoder_ != nullptr, "LoadModel comes before Loss");
  if (inputs.labels.count == 0) return {};
  return {model::SumCrossEntropy(decoder_->Hidden(inputs.decoder),
                                 decoder_->head(), inputs.labels),
          {}};
}

std::unique_ptr<GradientPath> LanguageModelling::MakeGradientPath(
    optim::Trainable& trainable, device::Device& device) const {
  const spec::GradientChoice choice =
      spec::ChooseGradients(spec_, decoder_->config());
  if (choice.explicit_step) {
    return MakeExplicitStepPath(
        *decoder_, trainable, device,
        spec_.preference.enabled() ? &spec_.preference : nullptr);
  }
  if (choice.reason.empty()) return MakeAutogradPath(*this, trainable);
  return MakeAutogradPath(*this, trainable,
                          absl::StrCat("autograd (", choice.reason, ")"));
}

metrics::Values LanguageModelling::Metrics(double loss,
                                           const metrics::Predictions&) const {
  return {{"perplexity", metrics::Perplexity(loss)}};
}

std::vector<std::string> LanguageModelling::MetricNames() const {
  return {"perplexity"};
}

}  // namespace mpsd::train
