// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec_rules.h"

#include <string>
#include <string_view>

#include "core/spec/cat.h"
#include "core/spec/python_regex.h"

namespace mpsd::spec {
namespace {

class Rules {
 public:
  Rules(const TrainSpec& spec, const JsonNode& root, Findings& findings)
      : spec_(spec), root_(root), findings_(findings) {}

  void Run() {
    CheckEvaluation();
    CheckBestModel();
    CheckLossMasks();
    CheckTargets();
    CheckPatterns(spec_.lora.rank_pattern, "rank_pattern");
    CheckPatterns(spec_.lora.alpha_pattern, "alpha_pattern");
  }

 private:
  void Fault(std::string_view section, std::string_view name,
             std::string_view message) {
    const JsonNode* node = root_.Find(section);
    const JsonNode* field = node == nullptr ? nullptr : node->Find(name);
    const int line = field != nullptr  ? field->line
                     : node != nullptr ? node->line
                                       : root_.line;
    findings_.Add(line, Cat(section, ".", name), message);
  }

  void CheckEvaluation() {
    if (!spec_.dataset.eval.empty()) return;
    constexpr std::string_view kNeedsEval =
        "needs evaluations, and there is no dataset.eval; name its files or "
        "leave this out";
    const TrainingSpec& t = spec_.training;
    if (t.eval_steps > 0) Fault("training", "eval_steps", kNeedsEval);
    if (t.load_best_model_at_end) {
      Fault("training", "load_best_model_at_end", kNeedsEval);
    }
    if (t.early_stopping_patience) {
      Fault("training", "early_stopping_patience", kNeedsEval);
    }
  }

  // TrainingArguments.__post_init__ demands the same.
  void CheckBestModel() {
    const TrainingSpec& t = spec_.training;
    if (!t.load_best_model_at_end || spec_.dataset.eval.empty()) return;
    if (t.eval_steps > 0 && t.save_steps > 0 &&
        t.save_steps % t.eval_steps == 0) {
      return;
    }
    Fault("training", "load_best_model_at_end",
          Cat("needs a checkpoint at evaluations: eval_steps > 0 and "
              "save_steps a multiple of it, found eval_steps ",
              t.eval_steps, " and save_steps ", t.save_steps));
  }

  void CheckLossMasks() {
    const TrainingSpec& t = spec_.training;
    if (t.assistant_only_loss.value_or(false) &&
        t.completion_only_loss.value_or(false)) {
      Fault("training", "completion_only_loss",
            "contradicts assistant_only_loss: the first is for "
            "prompt/completion rows, the second for messages; set one of "
            "them");
    }
  }

  void CheckTargets() {
    const LoraSpec& lora = spec_.lora;
    const auto* regex = std::get_if<std::string>(&lora.target_modules);
    const bool all =
        std::holds_alternative<LoraSpec::AllLinear>(lora.target_modules);
    if (lora.layers_to_transform && (regex != nullptr || all)) {
      Fault("lora", "layers_to_transform",
            "cannot be used when target_modules is a string (as in PEFT); give "
            "target_modules as a list of names");
    }
    if (regex == nullptr) return;
    const auto compiled = PythonRegex::Compile(*regex);
    if (!compiled.ok()) {
      Fault("lora", "target_modules", std::string(compiled.status().message()));
    }
  }

  template <typename V>
  void CheckPatterns(const PatternMap<V>& patterns, std::string_view name) {
    for (const auto& [pattern, value] : patterns) {
      const auto compiled = PythonRegex::Compile(pattern);
      if (!compiled.ok())
        Fault("lora", name, std::string(compiled.status().message()));
    }
  }

  const TrainSpec& spec_;
  const JsonNode& root_;
  Findings& findings_;
};

}  // namespace

void CheckRules(const TrainSpec& spec, const JsonNode& root,
                Findings& findings) {
  Rules(spec, root, findings).Run();
}

}  // namespace mpsd::spec
