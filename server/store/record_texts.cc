// SPDX-License-Identifier: Apache-2.0
#include "server/store/record_texts.h"

#include <utility>
#include <vector>

namespace mpsd::store {
namespace {

using Rows = std::vector<std::pair<int64_t, std::string>>;

Rows RowsOf(Connection& c, int64_t first, int64_t last)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Rows rows;
  Query query(c,
              "SELECT place, texts FROM record_text_rows "
              "WHERE place BETWEEN ? AND ? ORDER BY place",
              first, last);
  while (query.Next()) {
    const int64_t place = query.Int();
    rows.emplace_back(place, query.Text());
  }
  return rows;
}

// The index forgets a text by being told it.
void Remove(Connection& c, const Rows& rows)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  for (const auto& [place, texts] : rows) {
    Query(c,
          "INSERT INTO record_texts (record_texts, rowid, texts) "
          "VALUES ('delete', ?, ?)",
          place, texts)
        .Run();
    Query(c, "DELETE FROM record_text_rows WHERE place = ?", place).Run();
  }
}

void Insert(Connection& c, int64_t place, const std::string& texts)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c, "INSERT INTO record_text_rows (place, texts) VALUES (?, ?)", place,
        texts)
      .Run();
  Query(c, "INSERT INTO record_texts (rowid, texts) VALUES (?, ?)", place,
        texts)
      .Run();
}

}  // namespace

void PutTexts(Connection& c, int64_t place, const std::string& texts) {
  Remove(c, RowsOf(c, place, place));
  Insert(c, place, texts);
}

void RemoveTexts(Connection& c, int64_t record) {
  Remove(c, RowsOf(c, record * kPlacesOfRecord,
                   record * kPlacesOfRecord + kPlacesOfRecord - 1));
}

void MoveTexts(Connection& c, int64_t from, int64_t to) {
  const Rows rows = RowsOf(c, from * kPlacesOfRecord,
                           from * kPlacesOfRecord + kPlacesOfRecord - 1);
  Remove(c, rows);
  for (const auto& [place, texts] : rows) {
    Insert(c, place + (to - from) * kPlacesOfRecord, texts);
  }
}

}  // namespace mpsd::store
