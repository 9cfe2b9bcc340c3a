// SPDX-License-Identifier: Apache-2.0
#include "client/text/table.h"

#include <algorithm>
#include <utility>

#include "client/text/format.h"
#include "core/base/check.h"

namespace mpsd::client {

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(std::move(cell));
  base::CheckAtMost(cells.size(), rows_[0].size(), "cells and columns");
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out, int columns) const {
  std::vector<int> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 == row.size()) break;
      line.append(widths[i] - Width(row[i]) + 2, ' ');
    }
    out << (columns > 0 ? Cut(line, columns) : line) << '\n';
  }
}

}  // namespace mpsd::client
