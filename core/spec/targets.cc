// SPDX-License-Identifier: Apache-2.0
#include "core/spec/targets.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/fields.h"
#include "core/spec/modules.h"
#include "core/spec/python_regex.h"

namespace mpsd::spec {
namespace {

using NameList = std::vector<std::string>;

bool IsNameOrTail(std::string_view name, std::string_view entry) {
  return name == entry || name.ends_with(base::Cat(".", entry));
}

// A module is trained as a whole if its own name, or the name of a module
// around it, ends in the entry (plain suffix, as in PEFT: "classifier" also
// matches DistilBERT's "pre_classifier").
bool IsSavedBy(std::string_view name, std::string_view entry) {
  for (size_t end = name.find('.'); end != std::string_view::npos;
       end = name.find('.', end + 1)) {
    if (name.substr(0, end).ends_with(entry)) return true;
  }
  return name.ends_with(entry);
}

bool IsSaved(std::string_view name, const LoraSpec& lora) {
  return std::any_of(
      lora.modules_to_save.begin(), lora.modules_to_save.end(),
      [&](const std::string& entry) { return IsSavedBy(name, entry); });
}

// peft 0.21, utils/constants.py SEQ_CLS_HEAD_NAMES: in modules_to_save of every
// adapter for classification, even those that the model lacks.
constexpr std::string_view kHeadNames[] = {"classifier", "score"};

std::string_view LastPart(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::vector<Module> LinearModules(const ModelConfig& config) {
  std::vector<Module> linear;
  for (Module& module : Modules(config)) {
    if (module.kind == Module::Kind::kLinear) {
      linear.push_back(std::move(module));
    }
  }
  return linear;
}

// "self_attn.q_proj, … in model.layers.0 to model.layers.29, and lm_head"
std::string LinearList(const ModelConfig& config) {
  NameList parts, others;
  std::string prefix;
  for (const Module& module : LinearModules(config)) {
    if (module.layer == 0) {
      const size_t end = module.name.find(".0.");
      prefix = module.name.substr(0, end + 1);
      parts.push_back(module.name.substr(end + 3));
    } else if (module.layer < 0) {
      others.push_back(module.name);
    }
  }
  return base::Cat("the linear layers of this model are ",
                   absl::StrJoin(parts, ", "), " in ", prefix, "0 to ", prefix,
                   config.num_hidden_layers - 1, others.empty() ? "" : ", and ",
                   absl::StrJoin(others, ", "));
}

absl::Status Unmatched(std::string_view entry, const ModelConfig& config) {
  std::string message =
      base::Cat("lora.target_modules: \"", entry,
                "\" matches no linear layer; ", LinearList(config));
  std::set<std::string_view> parts;
  bool has_weights = false;
  const std::vector<Module> modules = Modules(config);
  for (const Module& m : modules) {
    if (m.kind == Module::Kind::kLinear) parts.insert(LastPart(m.name));
    has_weights = has_weights || IsNameOrTail(m.name, entry);
  }
  const std::string_view last = LastPart(entry);
  if (has_weights) {
    message += base::Cat("; \"", entry,
                         "\" can be trained whole through modules_to_save");
  } else if (auto nearest = NearestName(
                 last,
                 std::vector<std::string_view>(parts.begin(), parts.end()))) {
    message += base::Cat("; did you mean \"", *nearest, "\"?");
  }
  return absl::InvalidArgumentError(message);
}

absl::Status UnmatchedRegex(std::string_view pattern,
                            const ModelConfig& config) {
  return absl::InvalidArgumentError(
      base::Cat("lora.target_modules: the regular expression \"", pattern,
                "\" matches no linear layer as a whole; write [\"q_proj\"] or "
                "\".*q_proj\" for every q_proj; ",
                LinearList(config)));
}

// Whether `key` is all of `name` or its end after a dot, where a dot of `key`
// matches any letter: equal to PatternKeyRegex for a key without other special
// characters, but faster.
bool IsPlainMatch(std::string_view key, std::string_view name) {
  if (name.size() < key.size()) return false;
  const size_t begin = name.size() - key.size();
  if (begin > 0 && name[begin - 1] != '.') return false;
  return std::equal(key.begin(), key.end(), name.begin() + begin,
                    [](char k, char n) { return k == n || k == '.'; });
}

bool IsPlain(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

// A compiled rank_pattern or alpha_pattern.
template <typename V>
class Patterns {
 public:
  static absl::StatusOr<Patterns> Compile(const PatternMap<V>& patterns,
                                          std::string_view field) {
    Patterns compiled;
    for (const auto& [key, value] : patterns) {
      auto alone = PythonRegex::Compile(key);
      auto regex = alone.ok() ? PythonRegex::Compile(PatternKeyRegex(key))
                              : std::move(alone);
      if (!regex.ok()) {
        return absl::InvalidArgumentError(base::Cat(
            "lora.", field, ": ", std::string(regex.status().message())));
      }
      compiled.entries_.push_back(
          {key, *std::move(regex), value, IsPlain(key)});
    }
    return compiled;
  }

  V Find(const std::string& name, V otherwise, int64_t* steps) const {
    for (const Entry& entry : entries_) {
      if (*steps > limits::kMatchSteps) break;
      if (Matches(entry, name, steps)) return entry.value;
    }
    return otherwise;
  }

  // The first key that matches none of `matches`; null if each key matches one,
  // or once the matcher's steps are used up.
  const std::string* Unmatched(const std::vector<TargetMatch>& matches,
                               int64_t* steps) const {
    for (const Entry& entry : entries_) {
      const auto fits = [&](const TargetMatch& match) {
        return *steps > limits::kMatchSteps ||
               Matches(entry, match.name, steps);
      };
      if (std::none_of(matches.begin(), matches.end(), fits)) {
        return &entry.key;
      }
    }
    return nullptr;
  }

 private:
  struct Entry {
    std::string key;
    PythonRegex regex;
    V value;
    bool plain;
  };
  static bool Matches(const Entry& entry, const std::string& name,
                      int64_t* steps) {
    if (!entry.plain) return entry.regex.FullMatch(name, steps);
    ++*steps;
    return IsPlainMatch(entry.key, name);
  }
  std::vector<Entry> entries_;
};

absl::Status CheckLayers(const LoraSpec& lora, const ModelConfig& config) {
  if (!lora.layers_to_transform) return absl::OkStatus();
  for (int64_t layer : *lora.layers_to_transform) {
    if (layer >= 0 && layer < config.num_hidden_layers) continue;
    return absl::InvalidArgumentError(base::Cat(
        "lora.layers_to_transform: there is no layer ", layer,
        "; expected numbers from 0 to ", config.num_hidden_layers - 1));
  }
  return absl::OkStatus();
}

// The layers to transform; absent: all. An empty list counts as absent (PEFT).
std::optional<std::set<int64_t>> KeptLayers(const LoraSpec& lora) {
  if (!lora.layers_to_transform || lora.layers_to_transform->empty()) {
    return std::nullopt;
  }
  const auto& kept = *lora.layers_to_transform;
  return std::set<int64_t>(kept.begin(), kept.end());
}

using Matched = absl::StatusOr<std::vector<Module>>;

Matched MatchList(const NameList& entries, const ModelConfig& config) {
  ModuleNames names(entries);
  std::vector<Module> matched;
  for (Module& m : LinearModules(config)) {
    if (names.Mean(m.name)) matched.push_back(std::move(m));
  }
  if (const std::string* entry = names.Unmet()) {
    return Unmatched(*entry, config);
  }
  return matched;
}

absl::Status TooSlow(std::string_view field) {
  return absl::InvalidArgumentError(base::Cat(
      "lora.", field, ": takes more than ", limits::kMatchSteps,
      " steps to match with the modules of this model; write fewer or "
      "simpler patterns"));
}

Matched MatchRegex(const std::string& pattern, const ModelConfig& config) {
  const auto regex = PythonRegex::Compile(pattern);
  if (!regex.ok()) {
    return absl::InvalidArgumentError(base::Cat(
        "lora.target_modules: ", std::string(regex.status().message())));
  }
  std::vector<Module> matched;
  int64_t steps = 0;
  for (Module& m : LinearModules(config)) {
    if (regex->FullMatch(m.name, &steps)) matched.push_back(std::move(m));
    if (steps > limits::kMatchSteps) return TooSlow("target_modules");
  }
  if (matched.empty()) return UnmatchedRegex(pattern, config);
  return matched;
}

Matched MatchByName(const LoraSpec& lora, const ModelConfig& config) {
  if (const auto* regex = std::get_if<std::string>(&lora.target_modules)) {
    return MatchRegex(*regex, config);
  }
  if (const auto* list = std::get_if<NameList>(&lora.target_modules)) {
    return MatchList(*list, config);
  }
  if (std::holds_alternative<std::monostate>(lora.target_modules)) {
    return MatchList(DefaultTargetModules(config.model_type), config);
  }
  std::vector<Module> matched = LinearModules(config);
  std::erase_if(matched, [](const Module& m) { return m.head; });
  return matched;
}

}  // namespace

std::vector<std::string> DefaultTargetModules(const std::string& model_type) {
  for (const char* type :
       {"bert", "roberta", "xlm-roberta", "camembert", "electra"}) {
    if (model_type == type) return {"query", "value"};
  }
  if (model_type == "distilbert") return {"q_lin", "v_lin"};
  if (model_type == "phi3") return {"qkv_proj"};
  return {"q_proj", "v_proj"};
}

LoraSpec EffectiveLora(LoraSpec lora, const ModelConfig& config) {
  if (!lora.lora_dropout) lora.lora_dropout = 0;
  if (std::holds_alternative<std::monostate>(lora.target_modules)) {
    lora.target_modules = DefaultTargetModules(config.model_type);
  }
  if (config.num_labels == 0) return lora;
  NameList& saved = lora.modules_to_save;
  for (std::string_view name : kHeadNames) {
    if (std::find(saved.begin(), saved.end(), name) == saved.end()) {
      saved.emplace_back(name);
    }
  }
  return lora;
}

absl::StatusOr<std::vector<TargetMatch>> MatchTargets(
    const LoraSpec& lora, const ModelConfig& config) {
  RETURN_IF_ERROR(CheckLayers(lora, config));
  ASSIGN_OR_RETURN(const auto ranks, Patterns<int64_t>::Compile(
                                         lora.rank_pattern, "rank_pattern"));
  ASSIGN_OR_RETURN(const auto alphas, Patterns<double>::Compile(
                                          lora.alpha_pattern, "alpha_pattern"));
  const Matched modules = MatchByName(lora, config);
  if (!modules.ok()) return modules.status();
  const auto layers = KeptLayers(lora);
  std::vector<TargetMatch> matches;
  int64_t rank_steps = 0, alpha_steps = 0;
  for (const Module& m : *modules) {
    if (layers && !layers->contains(m.layer)) continue;
    if (IsSaved(m.name, lora)) continue;
    const int64_t r = ranks.Find(m.name, lora.r, &rank_steps);
    const double alpha = alphas.Find(m.name, lora.lora_alpha, &alpha_steps);
    if (rank_steps > limits::kMatchSteps) return TooSlow("rank_pattern");
    if (alpha_steps > limits::kMatchSteps) return TooSlow("alpha_pattern");
    const double divisor =
        lora.use_rslora ? std::sqrt(static_cast<double>(r)) : r;
    matches.push_back(
        {m.name, r, alpha, alpha / divisor, m.in_features, m.out_features});
  }
  if (matches.empty()) {
    return absl::InvalidArgumentError(
        "lora.target_modules: layers_to_transform and modules_to_save leave no "
        "linear layer to adapt");
  }
  return matches;
}

namespace {

absl::Status UnmatchedKey(std::string_view field, std::string_view key,
                          const std::vector<TargetMatch>& matches) {
  std::set<std::string> parts;
  for (const TargetMatch& match : matches) {
    parts.insert(std::string(LastPart(match.name)));
  }
  std::string message =
      base::Cat("lora.", field, ": \"", key,
                "\" matches no layer that is adapted; those are ",
                absl::StrJoin(parts, ", "), " (see target_modules)");
  if (auto near = NearestName(LastPart(key), std::vector<std::string_view>(
                                                 parts.begin(), parts.end()))) {
    message += base::Cat("; did you mean \"", *near, "\"?");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace

absl::Status CheckPatternKeys(const LoraSpec& lora, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const auto matches, MatchTargets(lora, config));
  ASSIGN_OR_RETURN(const auto ranks, Patterns<int64_t>::Compile(
                                         lora.rank_pattern, "rank_pattern"));
  ASSIGN_OR_RETURN(const auto alphas, Patterns<double>::Compile(
                                          lora.alpha_pattern, "alpha_pattern"));
  int64_t rank_steps = 0, alpha_steps = 0;
  if (const std::string* key = ranks.Unmatched(matches, &rank_steps)) {
    return UnmatchedKey("rank_pattern", *key, matches);
  }
  if (rank_steps > limits::kMatchSteps) return TooSlow("rank_pattern");
  if (const std::string* key = alphas.Unmatched(matches, &alpha_steps)) {
    return UnmatchedKey("alpha_pattern", *key, matches);
  }
  if (alpha_steps > limits::kMatchSteps) return TooSlow("alpha_pattern");
  return absl::OkStatus();
}

namespace {

bool IsHeadName(std::string_view entry) {
  return std::find(std::begin(kHeadNames), std::end(kHeadNames), entry) !=
         std::end(kHeadNames);
}

absl::Status UnmatchedSaved(std::string_view entry,
                            const std::vector<Module>& modules) {
  NameList outside;
  std::string inside;
  for (const Module& m : modules) {
    if (m.kind == Module::Kind::kParameter) continue;
    if (m.layer < 0) outside.push_back(m.name);
    if (m.layer == 0 && inside.empty()) {
      inside = m.name.substr(m.name.find(".0.") + 3);
    }
  }
  return absl::InvalidArgumentError(
      base::Cat("lora.modules_to_save: no module with weights ends in \"",
                entry, "\"; there are ", absl::StrJoin(outside, ", "),
                ", and in each layer ", inside, " and so on"));
}

}  // namespace

absl::StatusOr<std::vector<Module>> MatchModulesToSave(
    const LoraSpec& lora, const ModelConfig& config) {
  if (lora.modules_to_save.empty()) return std::vector<Module>();
  const std::vector<Module> modules = Modules(config);
  std::vector<bool> saved(modules.size());
  for (const std::string& entry : lora.modules_to_save) {
    bool found = false;
    for (size_t i = 0; i < modules.size(); ++i) {
      if (modules[i].kind == Module::Kind::kParameter) continue;
      if (!IsSavedBy(modules[i].name, entry)) continue;
      saved[i] = found = true;
    }
    if (found || (config.num_labels > 0 && IsHeadName(entry))) continue;
    return UnmatchedSaved(entry, modules);
  }
  std::vector<Module> matched;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (saved[i]) matched.push_back(modules[i]);
  }
  return matched;
}

}  // namespace mpsd::spec
