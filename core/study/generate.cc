// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "core/generate/generator.h"
#include "core/lora/lora.h"
#include "core/model/weight_reader.h"
#include "core/report/runbook.h"
#include "core/spec/generation.h"
#include "core/study/study.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "core/train/stages.h"

namespace mpsd::study {
namespace {

using generate::Answer;
using generate::Finish;
using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr size_t kShownBytes = 3 << 20;  // of rows in result.json

const char* NameOf(Finish finish) {
  return finish == Finish::kEos          ? "eos"
         : finish == Finish::kStopString ? "stop_string"
                                         : "length";
}

// Prompts and answers as text.
class Text {
 public:
  static absl::StatusOr<Text> Read(const std::string& folder,
                                   const spec::TrainingSpec& training,
                                   bool raw) {
    Text text;
    const text::TextOverrides overrides{training.chat_template_path,
                                        training.eos_token};
    ASSIGN_OR_RETURN(text.tokenizer_,
                     text::Tokenizer::FromFolder(folder, overrides));
    if (raw || !text.tokenizer_->has_chat_template()) return text;
    ASSIGN_OR_RETURN(text.chat_,
                     text::ChatTemplate::FromFolder(
                         folder, text::TemplateUse::kAsIs, overrides));
    return text;
  }

  absl::StatusOr<Ids> Encode(const spec::Prompt& prompt) const {
    if (chat_ == nullptr) {
      if (prompt.messages.empty()) {
        return tokenizer_->EncodeIds(prompt.text, /*add_special_tokens=*/true);
      }
      return absl::InvalidArgumentError(
          "has messages, which need the chat template of a model that has one, "
          "and no --raw");
    }
    const std::string messages =
        prompt.messages.empty()
            ? json::array({{{"role", "user"}, {"content", prompt.text}}}).dump()
            : prompt.messages;
    ASSIGN_OR_RETURN(const text::Rendered rendered,
                     chat_->Render(messages, /*tools_json=*/"",
                                   /*add_generation_prompt=*/true));
    return tokenizer_->EncodeIds(rendered.text, /*add_special_tokens=*/false);
  }

  // The answer's part of the text: alone it might lack its first space.
  absl::StatusOr<std::string> Decode(const Ids& prompt,
                                     const Ids& answer) const {
    Ids all = prompt;
    all.insert(all.end(), answer.begin(), answer.end());
    ASSIGN_OR_RETURN(const std::string before,
                     tokenizer_->Decode(prompt, /*skip_special_tokens=*/true));
    ASSIGN_OR_RETURN(const std::string text,
                     tokenizer_->Decode(all, /*skip_special_tokens=*/true));
    if (text.starts_with(before)) return text.substr(before.size());
    return tokenizer_->Decode(answer, /*skip_special_tokens=*/true);
  }

  // Whether a stop string ends within the last token (Transformers'
  // StopStringCriteria).
  bool Stops(std::span<const int32_t> ids,
             const std::vector<std::string>& stops) const {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      longest = std::max(longest, stop.size());
    }
    // A token has a byte or more; some characters take several tokens.
    ids = ids.last(std::min(ids.size(), longest + 8));
    const auto before =
        tokenizer_->Decode(absl::MakeSpan(ids.data(), ids.size() - 1), false);
    const auto text =
        tokenizer_->Decode(absl::MakeSpan(ids.data(), ids.size()), false);
    if (!before.ok() || !text.ok()) return false;
    const size_t same = std::mismatch(before->begin(), before->end(),
                                      text->begin(), text->end())
                            .first -
                        before->begin();
    return std::any_of(stops.begin(), stops.end(), [&](const auto& stop) {
      const size_t found = text->rfind(stop);
      return found != text->npos && found + stop.size() > same;
    });
  }

  // Adds the tokenizer's end, as Transformers' Trainer does
  // (align_special_tokens): chats often end a turn with it.
  void AddEnd(std::vector<int64_t>& eos) const {
    if (const auto id = tokenizer_->eos_id()) eos.push_back(*id);
  }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_;  // null: prompts are raw
};

// The prompts of a job, in the order of its file.
struct Prompts {
  std::vector<spec::Prompt> prompts;
  std::vector<Ids> ids;
};

absl::StatusOr<Prompts> ReadPrompts(const spec::TrainSpec& spec,
                                    const Text& text, int64_t max_new_tokens,
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
    absl::StatusOr<Ids> ids = text.Encode(prompt);
    const std::string which = absl::StrCat(
        "prompt ", read.ids.size() + 1, " of ", path.filename().string(), ": ");
    if (!ids.ok()) {
      return absl::Status(ids.status().code(),
                          absl::StrCat(which, ids.status().message()));
    }
    const auto tokens = static_cast<int64_t>(ids->size());
    if (tokens == 0) return absl::InvalidArgumentError(which + "has no token");
    if (tokens + max_new_tokens > most_tokens) {
      return absl::InvalidArgumentError(
          absl::StrCat(which, "has ", tokens, " tokens, with max_new_tokens, ",
                       max_new_tokens, ", more than the ", most_tokens,
                       " for which the model has positions"));
    }
    read.ids.push_back(*std::move(ids));
  }
  return read;
}

// One network's answers. Prompts of about one length share a batch.
absl::StatusOr<std::vector<Answer>> Answers(const Study& study,
                                            const char* stage,
                                            const model::Decoder& decoder,
                                            device::Device& device,
                                            generate::Generation generation,
                                            const std::vector<Ids>& prompts) {
  std::vector<int64_t> order(prompts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return prompts[a].size() > prompts[b].size();
  });
  const int64_t most = generation.settings.max_new_tokens;
  std::vector<Answer> all(prompts.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const auto longest = static_cast<int64_t>(prompts[order[begin]].size());
    end = std::min<size_t>(order.size(),
                           begin + generate::MostRows(decoder.config(), longest,
                                                      most, decoder.dtype()));
    generation.go_on = [&](int64_t made) {
      const double part = static_cast<double>(end - begin) * made / most;
      study.observer.OnStage(stage, (begin + part) / order.size());
      return study.observer.stop_request() == train::StopRequest::kNone;
    };
    const std::vector<int64_t> rows(order.begin() + begin, order.begin() + end);
    std::vector<Ids> batch;
    for (const int64_t row : rows) batch.push_back(prompts[row]);
    ASSIGN_OR_RETURN(auto answers, generate::Answers(decoder, device,
                                                     generation, batch, rows));
    for (size_t i = 0; i < rows.size(); ++i) {
      all[rows[i]] = std::move(answers[i]);
    }
  }
  return all;
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

absl::StatusOr<json> RowOf(const Text& text, const Prompts& prompts,
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
absl::StatusOr<json> Write(const Study& study, const Text& text,
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
                                                    const Text& text) {
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
  ASSIGN_OR_RETURN(const Text text,
                   Text::Read(folder, study.spec.training, options.raw));
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
  if (!settings.stop_strings.empty()) {
    generation.ends_with_stop = [&](std::span<const int32_t> ids) {
      return text.Stops(ids, settings.stop_strings);
    };
  }
  ASSIGN_OR_RETURN(const Answered answered,
                   AnswerAll(study, described, generation, prompts.ids,
                             options.compare_base, *device));
  Found found;
  ASSIGN_OR_RETURN(found.result, Write(study, text, prompts, answered));
  found.result["device"] = device->name();
  return found;
}

}  // namespace mpsd::study
