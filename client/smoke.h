// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SMOKE_H_
#define MPSD_CLIENT_SMOKE_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/text/svg_chart.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {

// A table of the epochs, above the findings; nothing for another study.
void PrintSmoke(const v1::StudyResult& result, const Console& console);

// The memory after each epoch.
SvgChart MemoryChart(const v1::SmokeResult& smoke);

// What of another machine's result is compared: RESULT.json is what
// `mpsctl smoke --json` printed there, or the study's result.json.
// InvalidArgument names the file.
absl::StatusOr<v1::SmokeReference> ReadSmokeReference(const std::string& file);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SMOKE_H_
