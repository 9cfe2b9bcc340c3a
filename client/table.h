// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TABLE_H_
#define MPSD_CLIENT_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

namespace mpsd::client {

// Rows under a header, each column as wide as its widest cell, two spaces
// between; the last column is neither padded nor bounded.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // As many cells as the header has; each is made printable.
  void Add(std::vector<std::string> cells);

  // Lines longer than `columns` are cut; 0 for no bound.
  void Print(std::ostream& out, int columns) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TABLE_H_
