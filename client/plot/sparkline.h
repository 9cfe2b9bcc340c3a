// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PLOT_SPARKLINE_H_
#define MPSD_CLIENT_PLOT_SPARKLINE_H_

#include <string>
#include <vector>

namespace mpsd::client {

// The last `columns` of `values`, a character each, from "▁" for the least of
// them to "█" for the greatest (without UTF-8 from '_' to '#'). Equal values
// are in the middle; a value that is not finite is a space.
std::string Sparkline(const std::vector<double>& values, int columns,
                      bool utf8);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PLOT_SPARKLINE_H_
