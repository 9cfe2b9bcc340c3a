// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

// The page of a run: its document, its HTML, and the points of its curves.
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

// An HTML page that shows the runs of `document`, JSON text made by
// RunDocument(). The page is self-contained: a browser makes no network request
// for it, and its Content-Security-Policy forbids all requests and all scripts
// and styles except its own. For text that is not JSON the page says so; no
// text can escape the element in which it is embedded.
std::string RunPage(std::string_view document);

// The policy in the page, for a server that also sends it as a header.
std::string ContentSecurityPolicy();

// Whether `head`, the first bytes of a file, are those of a RunPage().
bool BeginsLikeRunPage(std::string_view head);
// The number of bytes that BeginsLikeRunPage() needs.
inline constexpr size_t kHeadBytes = 256;

// A step of a run with a value per curve.
struct CurvesPoint {
  int64_t step = 0;
  std::vector<double> values;  // one per curve; may be NaN or infinite
};

// Selects at most `most` points that represent all of them when drawn, and
// returns their indices; `points` are in the order in which the run made them.
// Keeps from each of equal stretches of the run the first and the last point,
// for each curve the points with the least and the greatest value, and the
// first with a non-finite value. If a run went back to an earlier step, also
// keeps the points before and after that, for the latest `most` / 8 times.
// Keeps all points if `most` suffices. `most` must be at least 64.
std::vector<size_t> KeptPoints(const std::vector<CurvesPoint>& points,
                               size_t most);

}  // namespace mpsd::run_page
