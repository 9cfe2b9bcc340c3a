// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "core/generate/generator.h"
#include "core/generate/prompt_text.h"
#include "core/lora/lora.h"
#include "core/model/weight_reader.h"
#include "core/report/runbook.h"
#include "core/spec/generation.h"
#include "core/study/study.h"
#include "core/train/stages.h"

namespace mpsd::study {
namespace {

using generate::Answer;
using generate::Finish;
using generate::Ids;
using generate::PromptText;
using nlohmann::json;

constexpr size_t kShownBytes = 3 << 20;  // of rows in result.json

const char* NameOf(Finish finish) {
  return finish == Finish::kEos          ? "eos"
         : finish == Finish::kStopString ? "stop_string"
                                         : "length";
}

// The prompts of a job, in the order of its file.
struct Prompts {
  std::vector<spec::Prompt> prompts;
  std::vector<Ids> ids;
};

absl::StatusOr<Prompts> ReadPrompts(const spec::TrainSpec& spec,
                                    const PromptText& text,
                                    int64_t max_new_tokens,
                                    int64_t most_tokens) {
  if (spec.dataset.train.size() != 1) {
    return absl::InvalidArgumentError(
        "dataset.train: expected one file of prompts");
  }
  const std::filesystem::path path = spec.dataset.train.front();
  ASSIGN_OR_RETURN(const std::string file,
                   base::ReadSmallFile(path, spec::kMostPromptBytes));
  Prompts read;
  ASSIGN_OR_RETURN(read.prompts,
                   spec::ParsePrompts(file, path.filename().string()));
  for (const spec::Prompt& prompt : read.prompts) {
    absl::StatusOr<Ids> ids = text.Encode(prompt, max_new_tokens, most_tokens);
    if (!ids.ok()) {
      return absl::Status(
          ids.status().code(),
          absl::StrCat("prompt ", read.ids.size() + 1, " of ",
                       path.filename().string(), ": ", ids.status().message()));
    }
    read.ids.push_back(*std::move(ids));
  }
  return read;
}

// One network's answers.
absl::StatusOr<std::vector<Answer>> Answers(const Study& study,
                                            const char* stage,
                                            const model::Decoder& decoder,
                                            device::Device& device,
                                            generate::Generation generation,
                                            const std::vector<Ids>& prompts) {
  return generate::AllAnswers(
      decoder, device, std::move(generation), prompts, [&](double part) {
        study.observer.OnStage(stage, part);
        return study.observer.stop_request() == train::StopRequest::kNone;
      });
}

absl::StatusOr<std::unique_ptr<model::Decoder>> LoadDecoder(
    const Study& study, const train::Described& described,
    device::Device& device) {
  ASSIGN_OR_RETURN(const auto weights,
                   tensorfile::Weights::Open(described.model_folder));
  model::WeightSource source{
      weights.get(), device.torch_device(),
      described.spec->training.bf16 ? at::kBFloat16 : at::kFloat};
  source.quantization = described.spec->quantization_config;
  ASSIGN_OR_RETURN(
      auto decoder,
      model::Decoder::Load(source, described.config, [&](double part) {
        study.observer.OnStage("loading model", part);
      }));
  study.observer.OnWarnings(model::Warnings(decoder->load_report()));
  model::RunOptions options;
  options.attention = attention::KernelFor(device.traits());
  decoder->set_options(options);
  decoder->set_commit([&device] { device.Commit(); });
  return decoder;
}

struct Answered {
  std::vector<Answer> answers;
  std::optional<std::vector<Answer>> base;
  double seconds = 0;
};

// Answers with the adapter, if the spec names one, and before it without.
absl::StatusOr<Answered> AnswerAll(const Study& study,
                                   const train::Described& described,
                                   const generate::Generation& generation,
                                   const std::vector<Ids>& prompts, bool base,
                                   device::Device& device) {
  ASSIGN_OR_RETURN(const auto decoder, LoadDecoder(study, described, device));
  const absl::Duration begin = base::Clock::Real().Monotonic();
  Answered answered;
  if (base) {
    ASSIGN_OR_RETURN(answered.base,
                     Answers(study, "generating without the adapter", *decoder,
                             device, generation, prompts));
  }
  std::unique_ptr<lora::Adapter> adapter;
  if (const std::string& path = described.spec->adapter; !path.empty()) {
    ASSIGN_OR_RETURN(adapter,
                     lora::Adapter::Attach(*decoder, described.spec->lora,
                                           device.torch_device()));
    RETURN_IF_ERROR(adapter->LoadCheckpoint(path));
  }
  ASSIGN_OR_RETURN(answered.answers, Answers(study, "generating", *decoder,
                                             device, generation, prompts));
  answered.seconds =
      absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - begin);
  return answered;
}

absl::StatusOr<json> RowOf(const PromptText& text, const Prompts& prompts,
                           const Answered& answered, size_t i) {
  const spec::Prompt& prompt = prompts.prompts[i];
  json row = {
      {"prompt", prompt.messages.empty() ? prompt.text : prompt.messages}};
  const auto add = [&](const std::string& prefix,
                       const Answer& answer) -> absl::Status {
    ASSIGN_OR_RETURN(row[prefix + "completion"],
                     text.Decode(prompts.ids[i], answer.ids));
    row[prefix + "tokens"] = answer.ids.size();
    row[prefix + "finish_reason"] = NameOf(answer.finish);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add("", answered.answers[i]));
  if (answered.base) RETURN_IF_ERROR(add("base_", (*answered.base)[i]));
  return row;
}

// Writes all rows to out.jsonl; the result has those that fit.
absl::StatusOr<json> Write(const Study& study, const PromptText& text,
                           const Prompts& prompts, const Answered& answered) {
  std::string lines;
  json rows = json::array();
  int64_t tokens = 0;
  for (size_t i = 0; i < prompts.ids.size(); ++i) {
    ASSIGN_OR_RETURN(json row, RowOf(text, prompts, answered, i));
    tokens += answered.answers[i].ids.size();
    if (answered.base) tokens += (*answered.base)[i].ids.size();
    lines += row.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    if (lines.size() <= kShownBytes) rows.push_back(std::move(row));
  }
  RETURN_IF_ERROR(
      base::WriteFileAtomic(study.context.out_dir / "out.jsonl", lines));
  return json{{"rows", std::move(rows)},
              {"prompts", prompts.ids.size()},
              {"new_tokens", tokens},
              {"seconds", answered.seconds}};
}

// The settings of the model's folder, changed by the study's options.
absl::StatusOr<spec::GenerationSettings> SettingsOf(const Study& study,
                                                    const std::string& folder,
                                                    const PromptText& text) {
  std::vector<std::string> ignored;
  ASSIGN_OR_RETURN(spec::GenerationSettings settings,
                   spec::ReadGenerationSettings(folder, ignored));
  for (const std::string& name : ignored) {
    study.observer.OnWarning(absl::StrCat("generation_config.json: ", name,
                                          " is not applied: mpsd lacks it"));
  }
  text.AddEnd(settings.eos_token_id);
  RETURN_IF_ERROR(
      runbook::GenerateOptionsFromJson(study.options, &settings).status());
  return settings;
}

}  // namespace

absl::StatusOr<Found> Generate(const Study& study) {
  ASSIGN_OR_RETURN(const auto options,
                   runbook::GenerateOptionsFromJson(study.options));
  if (options.compare_base && study.spec.adapter.empty()) {
    return absl::InvalidArgumentError(
        "compare_base: the job has no adapter; generate with the other model "
        "too instead");
  }
  if (study.spec.task != spec::Task::kCausalLm) {
    return absl::InvalidArgumentError(
        "task: only a model of CAUSAL_LM generates text");
  }
  ASSIGN_OR_RETURN(const auto device, device::Open(study.spec.device));
  study.observer.OnDevice(device->name());
  ASSIGN_OR_RETURN(const train::Described described,
                   train::Describe(study.spec, study.observer));
  const std::string& folder = described.model_folder;
  const spec::TrainingSpec& training = study.spec.training;
  ASSIGN_OR_RETURN(
      const PromptText text,
      PromptText::Read(folder,
                       {training.chat_template_path, training.eos_token},
                       options.raw));
  generate::Generation generation;
  ASSIGN_OR_RETURN(generation.settings, SettingsOf(study, folder, text));
  const spec::GenerationSettings& settings = generation.settings;
  const int64_t most = std::min(described.config.max_row_tokens(),
                                device->traits().max_sum.value_or(1 << 20));
  ASSIGN_OR_RETURN(
      const Prompts prompts,
      ReadPrompts(study.spec, text, settings.max_new_tokens, most));
  const int64_t tokens = static_cast<int64_t>(prompts.ids.size()) *
                         settings.max_new_tokens *
                         (options.compare_base ? 2 : 1);
  if (tokens > spec::kMostAnswerTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_new_tokens: the answers may have ", tokens,
                     " tokens together, more than ", spec::kMostAnswerTokens,
                     ": give fewer prompts or a smaller max_new_tokens"));
  }
  generation.ends_with_stop = text.Stops(settings.stop_strings);
  ASSIGN_OR_RETURN(const Answered answered,
                   AnswerAll(study, described, generation, prompts.ids,
                             options.compare_base, *device));
  Found found;
  ASSIGN_OR_RETURN(found.result, Write(study, text, prompts, answered));
  found.result["device"] = device->name();
  return found;
}

}  // namespace mpsd::study
