// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_TABLE_H_
#define MPSD_CLIENT_TEXT_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

namespace mpsd::client {

// Rows under a header. Each column is as wide as its widest cell, with two
// spaces between columns; the last column is neither padded nor bounded.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // `cells`: as many as the header has; Add makes each printable.
  void Add(std::vector<std::string> cells);

  // Cuts lines longer than `columns`; 0 means no bound.
  void Print(std::ostream& out, int columns) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_TABLE_H_
