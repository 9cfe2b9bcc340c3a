// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PROMETHEUS_EXPOSITION_FORMAT_H_
#define MPSD_SERVER_PROMETHEUS_EXPOSITION_FORMAT_H_

#include <string>
#include <string_view>

namespace mpsd::prometheus {

// A format in which metrics are shown.
struct ExpositionFormat {
  bool is_open_metrics = false;
  std::string content_type;
};

// The format that a client with this header Accept likes best: OpenMetrics
// where the client names the format, else the text format 0.0.4, which every
// client reads. The header may ask for what does not exist; the client then
// gets the text format too, as every client library answers.
ExpositionFormat ChosenFormat(std::string_view accept);

}  // namespace mpsd::prometheus

#endif  // MPSD_SERVER_PROMETHEUS_EXPOSITION_FORMAT_H_
