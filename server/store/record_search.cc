// SPDX-License-Identifier: Apache-2.0
#include "server/store/record_search.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/store/record_texts.h"

namespace mpsd::store {
namespace {

using logbook::Comparison;
using logbook::Condition;
using logbook::FieldValue;

// FTS5's query for a text that may have any characters.
std::string Phrase(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// LIKE's pattern for the same, with '\\' as its escape.
std::string Pattern(const std::string& text) {
  return absl::StrCat(
      "%",
      absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"%", "\\%"}, {"_", "\\_"}}),
      "%");
}

const char* SqlOf(Comparison comparison) {
  switch (comparison) {
    case Comparison::kEqual:
      return " = ?";
    case Comparison::kNotEqual:
      return " <> ?";
    case Comparison::kContains:
      return " LIKE ? ESCAPE '\\'";
    case Comparison::kLess:
      return " < ?";
    case Comparison::kLessOrEqual:
      return " <= ?";
    case Comparison::kGreater:
      return " > ?";
    case Comparison::kGreaterOrEqual:
      break;
  }
  return " >= ?";
}

// WHERE, and the values for its question marks.
class Terms {
 public:
  void Add(const std::string& sql, std::vector<FieldValue> values) {
    absl::StrAppend(&where_, where_.empty() ? " WHERE " : " AND ", sql);
    values_.insert(values_.end(), values.begin(), values.end());
  }
  const std::string& where() const { return where_; }
  void BindTo(Query& query) const {
    for (const FieldValue& value : values_) {
      std::visit(
          [&query](const auto& one) {
            if constexpr (!std::is_same_v<decltype(one),
                                          const std::monostate&>) {
              query.Bind(one);
            }
          },
          value);
    }
  }

 private:
  std::string where_;
  std::vector<FieldValue> values_;
};

void AddCondition(const Condition& condition, Terms& terms) {
  FieldValue value = condition.value;
  if (condition.comparison == Comparison::kContains) {
    value = Pattern(std::get<std::string>(value));
  }
  const char* compares = SqlOf(condition.comparison);
  if (condition.of == Condition::Of::kField) {
    terms.Add(
        absl::StrCat("r.", std::string(condition.field->column), compares),
        {std::move(value)});
    return;
  }
  const bool metric = condition.of == Condition::Of::kMetric;
  terms.Add(absl::StrCat("EXISTS (SELECT 1 FROM ",
                         metric ? "record_metrics" : "record_labels",
                         " AS m WHERE m.record = r.number AND m.name = ? "
                         "AND m.value",
                         compares, ")"),
            {condition.name, std::move(value)});
}

// A text that is not the one that the search walks along: SQLite looks it up
// once for all records.
void AddText(const std::string& text, Terms& terms) {
  terms.Add(absl::StrCat("r.number IN (SELECT more.rowid / ", kPlacesOfRecord,
                         " FROM record_texts AS more "
                         "WHERE more.record_texts MATCH ?)"),
            {Phrase(text)});
}

// The texts, the one with the fewest places first, as far as they are counted.
std::vector<std::string> RarestFirst(Connection& c,
                                     const std::vector<std::string>& texts)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  if (texts.size() < 2) return texts;
  constexpr int kEnough = 1000;
  std::vector<std::pair<int64_t, std::string>> counted;
  for (const std::string& text : texts) {
    Query query(c,
                "SELECT count(*) FROM (SELECT 1 FROM record_texts "
                "WHERE record_texts MATCH ? LIMIT ?)",
                Phrase(text), kEnough);
    query.Next();
    counted.emplace_back(query.Int(), text);
  }
  std::stable_sort(
      counted.begin(), counted.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> sorted;
  sorted.reserve(counted.size());
  for (auto& [count, text] : counted) sorted.push_back(std::move(text));
  return sorted;
}

}  // namespace

std::vector<int64_t> FindRecords(Connection& c,
                                 const logbook::RecordSearch& search) {
  const logbook::RecordQuery& q = search.query;
  const std::vector<std::string> texts = RarestFirst(c, q.texts);
  Terms terms;
  // Along the index of texts, of a tag, or of all records; each gives the
  // latest first, so that a page costs no more than the records up to its end.
  std::string from = "records AS r", number = "r.number";
  size_t first_text = 0, first_tag = 0;
  if (!texts.empty()) {
    from = absl::StrCat(
        "record_texts AS t CROSS JOIN records AS r ON r.number = t.rowid / ",
        kPlacesOfRecord);
    number = "t.rowid";
    terms.Add("t.record_texts MATCH ?", {Phrase(texts[first_text++])});
  } else if (!q.tags.empty()) {
    from = "record_tags AS t CROSS JOIN records AS r ON r.number = t.record";
    number = "t.record";
    terms.Add("t.tag = ?", {q.tags[first_tag++]});
  }
  const int64_t factor = texts.empty() ? 1 : kPlacesOfRecord;
  if (search.before < INT64_MAX / kPlacesOfRecord) {
    terms.Add(absl::StrCat(number, " < ?"), {search.before * factor});
  }
  if (search.owner) terms.Add("r.owner = ?", {*search.owner});
  if (q.since) {
    terms.Add("r.end_time_us >= ?", {absl::ToUnixMicros(*q.since)});
  }
  if (q.until) terms.Add("r.end_time_us < ?", {absl::ToUnixMicros(*q.until)});
  for (const Condition& one : q.conditions) AddCondition(one, terms);
  for (size_t i = first_tag; i < q.tags.size(); ++i) {
    terms.Add(
        "EXISTS (SELECT 1 FROM record_tags AS o WHERE o.tag = ? "
        "AND o.record = r.number)",
        {q.tags[i]});
  }
  for (size_t i = first_text; i < texts.size(); ++i) {
    AddText(texts[i], terms);
  }
  Query query(c, absl::StrCat("SELECT r.number FROM ", from, terms.where(),
                              " ORDER BY ", number, " DESC"));
  terms.BindTo(query);
  std::vector<int64_t> found;
  // A record whose texts and notes both have the text comes several times.
  while (static_cast<int>(found.size()) < search.limit && query.Next()) {
    const int64_t record = query.Int();
    if (found.empty() || found.back() != record) found.push_back(record);
  }
  return found;
}

}  // namespace mpsd::store
