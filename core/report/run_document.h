// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_RUN_DOCUMENT_H_
#define MPSD_CORE_REPORT_RUN_DOCUMENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mpsd::run_page {

// How much of the daemon's data a document omits.
struct LeftOut {
  int64_t steps = 0;        // Progress events
  int64_t evaluations = 0;  // Evaluated events
  int64_t events = 0;       // others, oldest first
  int64_t log_bytes = 0;    // before the log's tail
};

// What a page knows of a run.
struct RunData {
  std::string job;  // v1.Job in Protocol Buffers' JSON, with the proto's names
  std::vector<std::string> events;  // v1.JobEvent likewise, oldest first
  std::string log;                  // the end of the log, any bytes
  // Small text files of the run by name, any bytes: "run.json",
  // "confusion_matrix.json"; the first lines of "predictions.jsonl".
  std::map<std::string, std::string> files;
  LeftOut left_out;
};

// The document that a page shows, as JSON:
//   {"runs": [{"job": {…}, "events": [{…}…], "log": "…", "files": {…},
//              "left_out": {"steps": 0, "evaluations": 0, "events": 0,
//                           "log_bytes": 0}}…]}
// Invalid UTF-8 bytes of the log and of the files become U+FFFD.
std::string RunDocument(const std::vector<RunData>& runs);

}  // namespace mpsd::run_page

#endif  // MPSD_CORE_REPORT_RUN_DOCUMENT_H_
