// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_BAR_H_
#define MPSD_CLIENT_TEXT_BAR_H_

#include <cstdint>
#include <string>
#include <vector>

// Shows progress and the course of a value in one line of a terminal.
namespace mpsd::client {

// " 42% ━━━━━━━━──────────── <text>" in at most `columns` columns: the bar
// gives way first, then the text is cut. `done` above `total` counts as full.
// Without UTF-8 the bar is "####----".
std::string Bar(int64_t done, int64_t total, const std::string& text,
                int columns, bool utf8);

// The last `columns` of `values`, a character each, from "▁" for the least of
// them to "█" for the greatest (without UTF-8 from '_' to '#'). Equal values
// are in the middle; a value that is not finite is a space.
std::string Sparkline(const std::vector<double>& values, int columns,
                      bool utf8);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_BAR_H_
