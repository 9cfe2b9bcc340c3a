// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/record_query.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/text/when.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "mpsd/v1/finding.pb.h"
#include "server/jobs/job.h"
#include "server/jobs/job_kind.h"

namespace mpsd::logbook {
namespace {

constexpr char kFieldForms[] =
    "as eval_loss<1.0, model~qwen, since:30d, tag:NAME or \"a text\"";

// The longest first, so that "<=" is not read as "<".
constexpr std::pair<std::string_view, Comparison> kOperators[] = {
    {"!=", Comparison::kNotEqual},       {"<=", Comparison::kLessOrEqual},
    {">=", Comparison::kGreaterOrEqual}, {"=", Comparison::kEqual},
    {"~", Comparison::kContains},        {"<", Comparison::kLess},
    {">", Comparison::kGreater}};

struct Unit {
  std::string_view suffix;
  double factor;
};
constexpr Unit kByteUnits[] = {{"KiB", 1024.0},       {"MiB", 1048576.0},
                               {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
                               {"kB", 1e3},           {"KB", 1e3},
                               {"MB", 1e6},           {"GB", 1e9},
                               {"TB", 1e12},          {"B", 1}};
constexpr Unit kTimeUnits[] = {
    {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};

size_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char byte) {
    return (byte & 0xC0) != 0x80;
  });
}

bool IsNameByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
         c == '.' || c == '-' || c == '/' || c == '@';
}

// The number before the unit; the whole text where no unit fits.
template <size_t N>
bool ReadNumber(const std::string& text, const Unit (&units)[N],
                double& value) {
  for (const Unit& unit : units) {
    if (text.ends_with(unit.suffix) &&
        absl::SimpleAtod(text.substr(0, text.size() - unit.suffix.size()),
                         &value)) {
      value *= unit.factor;
      return std::isfinite(value);
    }
  }
  return absl::SimpleAtod(text, &value) && std::isfinite(value);
}

template <typename Value, size_t N>
bool ReadName(const report::EnumName<Value> (&names)[N],
              const std::string& text, FieldValue& value) {
  for (const auto& [known, name] : names) {
    if (absl::EqualsIgnoreCase(std::string(name), text)) {
      value = static_cast<int64_t>(known);
      return true;
    }
  }
  return false;
}

bool ReadKind(const std::string& text, FieldValue& value) {
  if (ReadName(jobs::kJobKinds, text, value)) return true;
  value = int64_t{0};
  return absl::EqualsIgnoreCase(text, "note");
}

constexpr report::EnumName<v1::Verdict> kVerdicts[] = {
    {v1::VERDICT_PASS, "pass"},
    {v1::VERDICT_WARN, "warn"},
    {v1::VERDICT_FAIL, "fail"}};

// What a value of the type looks like, for people.
std::string Expected(const RecordField& field) {
  switch (field.type) {
    case FieldType::kNumber:
      return "a number";
    case FieldType::kBytes:
      return "a number of bytes, as 4GB or 512MiB";
    case FieldType::kSeconds:
      return "a number of seconds, as 90, 10m or 2h";
    default:
      return std::string(field.about);
  }
}

bool ReadValue(const RecordField& field, const std::string& text,
               FieldValue& value) {
  double number = 0;
  switch (field.type) {
    case FieldType::kText:
      value = text;
      return true;
    case FieldType::kKind:
      return ReadKind(text, value);
    case FieldType::kState:
      return ReadName(jobs::kStates, text, value);
    case FieldType::kVerdict:
      return ReadName(kVerdicts, text, value);
    case FieldType::kNumber:
      if (!absl::SimpleAtod(text, &number) || !std::isfinite(number)) {
        return false;
      }
      break;
    case FieldType::kBytes:
      if (!ReadNumber(text, kByteUnits, number)) return false;
      break;
    case FieldType::kSeconds:
      if (!ReadNumber(text, kTimeUnits, number)) return false;
      break;
  }
  value = number;
  return true;
}

// How a condition on values of the type may compare them.
bool Allows(FieldType type, Comparison comparison) {
  switch (comparison) {
    case Comparison::kEqual:
    case Comparison::kNotEqual:
      return true;
    case Comparison::kContains:
      return type == FieldType::kText;
    default:
      return type == FieldType::kNumber || type == FieldType::kBytes ||
             type == FieldType::kSeconds;
  }
}

std::string OperatorsFor(FieldType type) {
  if (type == FieldType::kText) return "= != or ~";
  return Allows(type, Comparison::kLess) ? "= != < <= > or >=" : "= or !=";
}

class Parser {
 public:
  Parser(std::string_view text, absl::Time now) : text_(text), now_(now) {}

  absl::StatusOr<RecordQuery> Parse() {
    absl::Status status;
    size_t terms = 0;
    for (SkipSpaces(); status.ok() && at_ < text_.size(); SkipSpaces()) {
      if (++terms > kQueryTerms) {
        return Fault(
            at_, absl::StrCat("a query has at most ", kQueryTerms, " terms"));
      }
      status = ReadTerm();
    }
    if (!status.ok()) return status;
    return std::move(query_);
  }

 private:
  absl::Status Fault(size_t at, const std::string& why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("query:", Characters(text_.substr(0, at)) + 1, ": ", why));
  }

  static bool IsSpace(char c) {
    return absl::ascii_isspace(static_cast<unsigned char>(c));
  }
  void SkipSpaces() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }

  absl::Status ReadTerm() {
    const size_t begin = at_;
    if (text_[at_] == '"') return ReadText(begin);
    while (at_ < text_.size() && IsNameByte(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (text_.substr(at_).starts_with(":")) return ReadPrefixed(begin, name);
    for (const auto& [sign, comparison] : kOperators) {
      if (!text_.substr(at_).starts_with(sign)) continue;
      if (name.empty()) {
        return Fault(begin, absl::StrCat("expected a field before ",
                                         std::string(sign), ", ", kFieldForms));
      }
      const size_t sign_at = at_;
      at_ += sign.size();
      return ReadComparison(begin, std::string(name), sign_at,
                            std::string(sign), comparison);
    }
    at_ = begin;
    return ReadText(begin);
  }

  // The value behind an operator or a colon: up to the next space, or what
  // stands between quotation marks, where \" and \\ stand for " and \.
  absl::Status ReadWord(std::string& word) {
    word.clear();
    if (at_ >= text_.size() || text_[at_] != '"') {
      while (at_ < text_.size() && !IsSpace(text_[at_])) word += text_[at_++];
      return absl::OkStatus();
    }
    const size_t open = at_++;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const bool escapes = text_[at_] == '\\' && at_ + 1 < text_.size() &&
                           (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\');
      if (escapes) ++at_;
      word += text_[at_];
    }
    if (at_ >= text_.size()) {
      return Fault(open,
                   "expected a \" at the end of the text that begins "
                   "here");
    }
    ++at_;
    if (at_ < text_.size() && !IsSpace(text_[at_])) {
      return Fault(at_, "expected a space behind the text's closing \"");
    }
    return absl::OkStatus();
  }

  absl::Status ReadText(size_t begin) {
    std::string word;
    if (absl::Status s = ReadWord(word); !s.ok()) return s;
    if (Characters(word) < kLeastText) {
      return Fault(
          begin, absl::StrCat("expected a text of ", kLeastText,
                              " characters at least, or a term ", kFieldForms));
    }
    if (query_.texts.size() == kQueryTexts) {
      return Fault(begin, absl::StrCat("a query has at most ", kQueryTexts,
                                       " texts: put words that stand together "
                                       "into quotation marks"));
    }
    query_.texts.push_back(std::move(word));
    return absl::OkStatus();
  }

  absl::Status ReadPrefixed(size_t begin, std::string_view name) {
    const size_t value_at = ++at_;
    std::string word;
    if (absl::Status s = ReadWord(word); !s.ok()) return s;
    if (name == "since" || name == "until") {
      const absl::StatusOr<absl::Time> time =
          client::ParseWhen(word, now_, absl::UTCTimeZone());
      if (!time.ok()) {
        return Fault(value_at, std::string(time.status().message()));
      }
      (name == "since" ? query_.since : query_.until) = *time;
      return absl::OkStatus();
    }
    if (name == "tag") {
      if (!IsTag(word)) {
        return Fault(value_at, absl::StrCat(base::Quotable(word),
                                            ": expected a tag: 1 to ",
                                            limits::kRecordTagBytes,
                                            " letters, digits and ._-+/@"));
      }
      query_.tags.push_back(std::move(word));
      return absl::OkStatus();
    }
    return Fault(begin, absl::StrCat(base::Quotable(name),
                                     ": expected since:, until: or tag: before "
                                     "a colon; a text with a colon needs "
                                     "quotation marks"));
  }

  absl::Status ReadComparison(size_t begin, const std::string& name,
                              size_t sign_at, const std::string& sign,
                              Comparison comparison) {
    Condition condition;
    condition.comparison = comparison;
    // What a metric and a label are compared as.
    static constexpr RecordField kMetric = {"metric", "", FieldType::kNumber,
                                            ""};
    static constexpr RecordField kLabel = {"label", "", FieldType::kText, ""};
    const RecordField* as = nullptr;
    if (name.starts_with("metric.") && name.size() > 7) {
      condition.of = Condition::Of::kMetric;
      condition.name = name.substr(7);
      as = &kMetric;
    } else if (name.starts_with("label.") && name.size() > 6) {
      condition.of = Condition::Of::kLabel;
      condition.name = name.substr(6);
      as = &kLabel;
    } else {
      as = condition.field = FieldNamed(name);
    }
    if (as == nullptr) {
      const std::optional<std::string_view> nearest = NearestField(name);
      return Fault(
          begin,
          absl::StrCat("there is no field ", base::Quotable(name),
                       nearest ? absl::StrCat("; ", std::string(*nearest), "?")
                               : ": see `mpsctl log search --help`"));
    }
    if (!Allows(as->type, comparison)) {
      return Fault(sign_at, absl::StrCat("expected ", OperatorsFor(as->type),
                                         " behind ", name, ", not ", sign));
    }
    const size_t value_at = at_;
    std::string word;
    if (absl::Status s = ReadWord(word); !s.ok()) return s;
    if (word.empty() || !ReadValue(*as, word, condition.value)) {
      const std::string expected =
          as->type == FieldType::kText ? "a text" : Expected(*as);
      return Fault(
          value_at,
          absl::StrCat("expected ", expected, " behind ", name, sign,
                       word.empty() ? "" : ", not ", base::Quotable(word)));
    }
    query_.conditions.push_back(std::move(condition));
    return absl::OkStatus();
  }

  const std::string_view text_;
  const absl::Time now_;
  size_t at_ = 0;
  RecordQuery query_;
};

}  // namespace

absl::StatusOr<RecordQuery> ParseRecordQuery(std::string_view text,
                                             absl::Time now) {
  if (text.size() > limits::kRecordQueryBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("query: has ", text.size(), " bytes, at most ",
                     limits::kRecordQueryBytes, " are allowed"));
  }
  if (text.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError("query: must not contain a zero byte");
  }
  return Parser(text, now).Parse();
}

bool IsTag(std::string_view tag) {
  return !tag.empty() && tag.size() <= limits::kRecordTagBytes &&
         std::all_of(tag.begin(), tag.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  absl::StrContains("._-+/@", c);
         });
}

}  // namespace mpsd::logbook
