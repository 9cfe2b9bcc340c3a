// SPDX-License-Identifier: Apache-2.0
#include "core/data/class_labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/row_errors.h"
#include "core/text/delimited.h"

namespace mpsd::data {
namespace {

using base::Cat;
using spec::ProblemType;
using Json = nlohmann::ordered_json;
using Kind = LabelValue::Kind;

constexpr size_t kMaxShown = 20;

using Names = std::vector<std::string>;
using Ids = std::map<std::string, int64_t, std::less<>>;

// Digits of any number, perhaps with a sign.
bool IsInteger(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

// nullopt beyond int64 too.
std::optional<int64_t> Integer(std::string_view text) {
  if (!IsInteger(text)) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [at, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || at != end) return std::nullopt;
  return number;
}

std::optional<double> Number(const std::string& text) {
  // strtod also accepts hexadecimal and leading blanks, which are not numbers
  // here.
  if (text.empty() ||
      text.find_first_not_of("0123456789+-.eEnaifNAIF") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return number;
}

std::string Quoted(const std::vector<std::string>& names) {
  if (!ContentsShown()) return kNotShown;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMaxShown); ++i) {
    shown.push_back(Cat("\"", base::Quotable(names[i]), "\""));
  }
  std::string text = absl::StrJoin(shown, ", ");
  if (names.size() > kMaxShown) {
    text += Cat(" and ", names.size() - kMaxShown, " more");
  }
  return text;
}

std::string Found(const LabelValue& value) {
  switch (value.kind) {
    case Kind::kAbsent:
      return "nothing";
    case Kind::kWord:
      return Cat("\"", base::Quotable(value.text), "\"");
    case Kind::kList:
      return "a list";
    default:
      return base::Quotable(value.text);
  }
}

bool IsNumber(const LabelValue& value) {
  return value.kind == Kind::kInteger || value.kind == Kind::kFraction;
}

// A name as it is compared with others.
std::string Compared(const std::string& name, bool any_case) {
  std::string text = text::Nfc(name);
  return any_case ? absl::AsciiStrToLower(text) : text;
}

// The first of lists that are vectors of a 0 or 1 for each label, as the loss
// of Transformers takes them, and not lists of labels: those name a label once,
// and two labels that every row has would distinguish nothing. -1 without one.
int64_t FirstMultiHot(const std::vector<LabelValue>& values, size_t labels) {
  bool pairs = labels <= 2;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& list = values[i].list;
    const int64_t zeros = absl::c_count(list, "0");
    const int64_t ones = absl::c_count(list, "1");
    const bool only = zeros + ones == std::ssize(list);
    if (only && (zeros > 1 || ones > 1)) return static_cast<int64_t>(i);
    pairs &= only && list.size() == 2;
  }
  return pairs && !values.empty() ? 0 : -1;
}

// Refuses labels that mean something else than a label. `names` are the labels
// that are known already.
absl::Status CheckMeaning(const std::vector<LabelValue>& values,
                          const LabelPlace& place, ProblemType problem,
                          const Names& names) {
  if (problem == ProblemType::kRegression) return absl::OkStatus();
  RowErrors errors;
  const int64_t vector = problem == ProblemType::kMultiLabel
                             ? FirstMultiHot(values, names.size())
                             : -1;
  if (vector >= 0) {
    errors.Add(place(vector),
               "label: a list of a 0 or 1 for each label; expected a list of "
               "the labels that apply, by name or id: write [\"a\", \"c\"], or "
               "[0, 2], for [1, 0, 1]");
    return errors.status();
  }
  int64_t count = 0, first = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const LabelValue& value = values[i];
    const auto marked = [&](const char* mark) {
      return (value.text == mark || absl::c_linear_search(value.list, mark)) &&
             !absl::c_linear_search(names, mark);
    };
    if (!marked("-1") && !marked("-100")) continue;
    if (++count == 1) first = static_cast<int64_t>(i);
  }
  if (count == 0) return absl::OkStatus();
  errors.Add(place(first),
             Cat("label: ", count, " of ", values.size(),
                 " rows have -1 or -100, which mean \"no label\"; remove these "
                 "rows, or list all names in classification.label_names if it "
                 "is the name of a class"));
  return errors.status();
}

// The reason why a label does not fit the problem, or "".
std::string KindFault(const LabelValue& value, ProblemType problem) {
  const char* expected = nullptr;
  const char* advice = "";
  switch (problem) {
    case ProblemType::kRegression: {
      const auto number = Number(value.text);
      // A target is a float.
      if (IsNumber(value) && number &&
          std::isfinite(static_cast<float>(*number))) {
        return "";
      }
      expected = "a finite number";
      if (value.kind == Kind::kWord) {
        advice =
            "; for classes set classification.problem_type to "
            "\"single_label_classification\"";
      }
      break;
    }
    case ProblemType::kSingleLabel:
      if (value.kind == Kind::kWord || value.kind == Kind::kInteger) {
        return "";
      }
      expected = "a class name or an integer";
      if (value.kind == Kind::kFraction) {
        advice =
            "; for numbers set classification.problem_type to \"regression\"";
      } else if (value.kind == Kind::kList) {
        advice =
            "; for several labels per row set classification.problem_type to "
            "\"multi_label_classification\"";
      }
      break;
    case ProblemType::kMultiLabel:
      if (value.kind == Kind::kList) return "";
      expected = "a list of label names, empty if none applies";
      break;
  }
  return Cat("label: expected ", expected, ", found ", Found(value), advice);
}

// The state of one DecideClassLabels.
class Decision {
 public:
  Decision(const std::vector<LabelValue>& values, const LabelPlace& place,
           const spec::ClassificationSpec& spec,
           const spec::GlueTask* glue_task, const spec::HeadConfig& head,
           std::vector<std::string>* warnings)
      : values_(values),
        place_(place),
        spec_(spec),
        glue_task_(glue_task),
        head_(head),
        warnings_(warnings) {}

  absl::StatusOr<ClassLabels> Make() {
    class_labels_.problem = Problem();
    RETURN_IF_ERROR(CheckKinds());
    RETURN_IF_ERROR(CheckMeaning(
        values_, place_, class_labels_.problem,
        spec_.label_names.empty() ? head_.label_names : spec_.label_names));
    if (class_labels_.problem == ProblemType::kRegression) {
      class_labels_.names = {"LABEL_0"};
    } else {
      NameClasses();
    }
    for (int64_t id = 0; id < class_labels_.outputs(); ++id) {
      const auto [at, _] = class_labels_.ids.emplace(
          Compared(class_labels_.names[id], false), id);
      if (at->second != id) {
        return absl::InvalidArgumentError(
            Cat("classification.label_names: \"",
                base::Quotable(class_labels_.names[id]),
                "\" appears twice; expected each name once"));
      }
    }
    if (class_labels_.problem != ProblemType::kRegression) AddIntegers();
    RETURN_IF_ERROR(SetClassWeights());
    Warn();
    return std::move(class_labels_);
  }

 private:
  ProblemType Problem() const {
    if (spec_.problem_type) return *spec_.problem_type;
    if (glue_task_ != nullptr) return glue_task_->problem_type;
    bool lists = false, numbers = true, fractions = false;
    for (const LabelValue& value : values_) {
      lists |= value.kind == Kind::kList;
      // JSON's integers beyond 64 bits are fractions too, but no targets.
      fractions |= value.kind == Kind::kFraction &&
                   !(std::abs(*Number(value.text)) >= 0x1p63);
      if (value.kind != Kind::kAbsent) numbers &= IsNumber(value);
    }
    if (lists) return ProblemType::kMultiLabel;
    return numbers && fractions ? ProblemType::kRegression
                                : ProblemType::kSingleLabel;
  }

  // Checks that every row's label has the kind that the problem needs.
  absl::Status CheckKinds() const {
    RowErrors errors;
    for (size_t i = 0; i < values_.size() && !errors.full(); ++i) {
      const std::string fault = KindFault(values_[i], class_labels_.problem);
      if (!fault.empty()) errors.Add(place_(i), fault);
    }
    return errors.status();
  }

  // By bytes, which is Python's order of strings.
  std::set<std::string> NamesOfData() const {
    std::set<std::string> names;
    for (const LabelValue& value : values_) {
      if (value.kind == Kind::kList) {
        names.insert(value.list.begin(), value.list.end());
      } else {
        names.insert(value.text);
      }
    }
    return names;
  }

  void NameClasses() {
    const std::set<std::string> found = NamesOfData();
    if (!spec_.label_names.empty()) {
      class_labels_.names = spec_.label_names;
    } else if (glue_task_ != nullptr && !glue_task_->label_names.empty()) {
      NameByTask();
    } else if (FitsConfig(found)) {
      class_labels_.names = head_.label_names;
    } else {
      class_labels_.names.assign(found.begin(), found.end());
      SortIntegers();
    }
  }

  // A column of numbers is sorted by value (run_glue.py); strings that look
  // like numbers, lists and folders' names are not (run_classification.py,
  // `datasets`).
  void SortIntegers() {
    Names& names = class_labels_.names;
    if (absl::c_all_of(names, [](const auto& n) { return !!Integer(n); }) &&
        absl::c_all_of(values_, [](const LabelValue& value) {
          return value.kind == Kind::kInteger;
        })) {
      absl::c_stable_sort(names, [](const auto& a, const auto& b) {
        return *Integer(a) < *Integer(b);
      });
    }
  }

  // A task's files name labels, or number them in the task's own order, even if
  // the model's config orders them differently.
  void NameByTask() {
    const std::vector<std::string> own(glue_task_->label_names.begin(),
                                       glue_task_->label_names.end());
    const bool same = own.size() == head_.label_names.size() &&
                      FitsConfig({own.begin(), own.end()});
    class_labels_.names = same ? head_.label_names : own;
    Ids& ids = class_labels_.ids;
    for (int64_t i = 0; i < std::ssize(own); ++i) {
      ids[Cat(i)] = ids[own[i]] = same ? ids.at(own[i]) : i;
    }
  }

  // Whether the config's names cover `found`, exactly or in another case, or
  // `found` are the config's ids. Spellings of the data become names of ids.
  bool FitsConfig(const std::set<std::string>& found) {
    const Names& names = head_.label_names;
    if (names.empty()) return false;
    for (const bool any_case : {false, true}) {
      Ids ids, spelled;
      std::set<int64_t> used;
      for (size_t id = 0; id < names.size(); ++id) {
        ids.emplace(Compared(names[id], any_case), id);
      }
      for (const std::string& name : found) {
        const auto it = ids.find(Compared(name, any_case));
        if (it == ids.end() || !used.insert(it->second).second) break;
        spelled[name] = it->second;
      }
      if (ids.size() != names.size() || spelled.size() != found.size())
        continue;
      class_labels_.ids = std::move(spelled);
      return true;
    }
    size_t id = 0;
    while (id < names.size() && found.contains(Cat(id))) ++id;
    return id == names.size() && found.size() == id;
  }

  void AddIntegers() {
    if (absl::c_any_of(class_labels_.names, IsInteger)) return;
    for (size_t id = 0; id < class_labels_.names.size(); ++id) {
      class_labels_.ids.emplace(Cat(id), id);
    }
  }

  absl::Status SetClassWeights() {
    class_labels_.weights = spec_.class_weights;
    const size_t count = class_labels_.weights.size();
    if (count == 0) return absl::OkStatus();
    if (class_labels_.problem == ProblemType::kRegression) {
      return absl::InvalidArgumentError(
          "classification.class_weights: a regression has no classes; leave "
          "it out");
    }
    if (count == class_labels_.names.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        Cat("classification.class_weights: expected ",
            class_labels_.names.size(), " numbers, for the labels ",
            Quoted(class_labels_.names), " in this order, found ", count));
  }

  void Warn() {
    if (warnings_ == nullptr || values_.empty() ||
        class_labels_.problem == ProblemType::kRegression) {
      return;
    }
    WarnOfOrder();
    const std::set<std::string> found = NamesOfData();
    if (class_labels_.problem == ProblemType::kSingleLabel &&
        found.size() == 1) {
      warnings_->push_back(Cat("every row has the label ",
                               Quoted({*found.begin()}),
                               ": there is nothing to distinguish"));
    }
  }

  // The trained head's row for an id would get another label. With another
  // number of labels the head is refused or made anew.
  void WarnOfOrder() {
    const Names& names = class_labels_.names;
    const Names& trained = head_.label_names;
    if (trained.size() != names.size() ||
        absl::c_equal(names, trained, [](const auto& a, const auto& b) {
          return Compared(a, true) == Compared(b, true);
        })) {
      return;
    }
    warnings_->push_back(
        Cat("the model's config.json names its labels ", Quoted(trained),
            ", and this job ", Quoted(names),
            ", in this order: the trained head's rows get these names; list "
            "names in classification.label_names in the config's order if they "
            "mean the same"));
  }

  const std::vector<LabelValue>& values_;
  const LabelPlace& place_;
  const spec::ClassificationSpec& spec_;
  const spec::GlueTask* const glue_task_;
  const spec::HeadConfig& head_;
  std::vector<std::string>* const warnings_;
  ClassLabels class_labels_;
};

// The label's id, or -1 after setting the fault.
int64_t IdOf(const std::string& text, const ClassLabels& class_labels,
             std::string* fault) {
  const auto it = class_labels.ids.find(text);
  if (it != class_labels.ids.end()) return it->second;
  *fault = Cat("label: \"", base::Quotable(text),
               "\" is not one of the labels ", Quoted(class_labels.names));
  return -1;
}

void Append(const LabelValue& value, const ClassLabels& class_labels,
            ClassTargets& all, std::string* fault) {
  switch (class_labels.problem) {
    case ProblemType::kSingleLabel:
      all.classes.push_back(IdOf(value.text, class_labels, fault));
      return;
    case ProblemType::kRegression:
      all.targets.push_back(static_cast<float>(*Number(value.text)));
      return;
    case ProblemType::kMultiLabel: {
      const size_t begin = all.targets.size();
      all.targets.resize(begin + class_labels.names.size(), 0);
      for (const std::string& name : value.list) {
        const int64_t id = IdOf(name, class_labels, fault);
        if (id >= 0) all.targets[begin + id] = 1;
      }
      return;
    }
  }
}

LabelValue Listed(const Json& value) {
  LabelValue label{Kind::kList, value.dump()};
  for (const Json& item : value) {
    const LabelValue one = LabelFromJson(item);
    if (one.kind != Kind::kWord && one.kind != Kind::kInteger) {
      label.kind = Kind::kOther;
    }
    label.list.push_back(one.text);
  }
  return label;
}

}  // namespace

LabelValue LabelFromText(std::string_view text) {
  if (text.empty()) return {};
  const std::string word(text);
  if (IsInteger(text)) return {Kind::kInteger, word};
  if (Number(word)) return {Kind::kFraction, word};
  if (text.front() == '[') {
    const Json list = base::ParseTree<Json>(word);
    if (list.is_array()) return Listed(list);
  }
  return {Kind::kWord, text::Nfc(text)};
}

LabelValue LabelFromJson(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_array()) return Listed(value);
  if (value.is_number_float()) return {Kind::kFraction, value.dump()};
  if (value.is_number()) return {Kind::kInteger, value.dump()};
  if (value.is_boolean()) return {Kind::kWord, value.dump()};
  if (!value.is_string()) return {Kind::kOther, "an object"};
  const std::string text = value.get<std::string>();
  if (text.empty()) return {};
  return {Kind::kWord, text::Nfc(text)};
}

absl::StatusOr<ClassLabels> DecideClassLabels(
    const std::vector<LabelValue>& values, const LabelPlace& place,
    const spec::ClassificationSpec& spec, const spec::GlueTask* glue_task,
    const spec::HeadConfig& head, std::vector<std::string>* warnings) {
  return Decision(values, place, spec, glue_task, head, warnings).Make();
}

absl::StatusOr<ClassTargets> EncodeClassLabels(
    const std::vector<LabelValue>& values, const LabelPlace& place,
    const ClassLabels& class_labels) {
  ClassTargets all;
  RETURN_IF_ERROR(
      CheckMeaning(values, place, class_labels.problem, class_labels.names));
  RowErrors errors;
  for (size_t i = 0; i < values.size() && !errors.full(); ++i) {
    std::string fault = KindFault(values[i], class_labels.problem);
    if (fault.empty()) Append(values[i], class_labels, all, &fault);
    if (!fault.empty()) errors.Add(place(i), fault);
  }
  RETURN_IF_ERROR(errors.status());
  return all;
}

double LossWeight(const ClassLabels& class_labels, const ClassTargets& all,
                  const std::vector<int64_t>& rows) {
  const double count = static_cast<double>(rows.size());
  if (class_labels.problem == ProblemType::kMultiLabel) {
    return count * static_cast<double>(class_labels.outputs());
  }
  if (class_labels.weights.empty() ||
      class_labels.problem == ProblemType::kRegression) {
    return count;
  }
  double sum = 0;
  for (const int64_t row : rows) {
    base::CheckIndex(row, all.classes.size(), "a labelled row");
    const int64_t id = all.classes[row];
    base::CheckIndex(id, class_labels.weights.size(), "a class with a weight");
    sum += class_labels.weights[id];
  }
  return sum;
}

void CopyClassTargets(const ClassLabels& class_labels, const ClassTargets& all,
                      Batch& batch) {
  const int64_t outputs = class_labels.outputs();
  for (const int64_t sample : batch.samples) {
    if (!all.classes.empty()) {
      base::CheckIndex(sample, all.classes.size(), "a labelled sample");
      batch.classes.push_back(all.classes[sample]);
    } else {
      base::CheckAtMost((sample + 1) * outputs, all.targets.size(),
                        "a sample's targets and all");
      const auto begin = all.targets.begin() + sample * outputs;
      batch.targets.insert(batch.targets.end(), begin, begin + outputs);
    }
  }
  batch.loss_weight = LossWeight(class_labels, all, batch.samples);
}

}  // namespace mpsd::data
