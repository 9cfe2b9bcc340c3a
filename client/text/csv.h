// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_CSV_H_
#define MPSD_CLIENT_TEXT_CSV_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mpsd::client {

// A line of comma-separated values as RFC 4180 has them, with its line break:
// numbers as JSON writes them, null as nothing, lists and objects as JSON. A
// text that a spreadsheet would take for a formula, because it begins with '=',
// '+', '-', '@' or a tab, gets an apostrophe before it. Other users give jobs
// their names.
std::string CsvLine(const std::vector<nlohmann::ordered_json>& values);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_CSV_H_
