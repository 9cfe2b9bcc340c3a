// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUN_KEPT_EVENTS_H_
#define MPSD_CLIENT_RUN_KEPT_EVENTS_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "core/report/run_page.h"
#include "mpsd/v1/artifacts.pb.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Extracts the small text files that a run's page shows from the messages of a
// Download: run.json, confusion_matrix.json and the first lines of
// predictions.jsonl. A file larger than 1 MiB is omitted, and predictions end
// after 64 KiB.
class FilePicker {
 public:
  // `files` gets the files by name, and must outlive the picker.
  explicit FilePicker(std::map<std::string, std::string>& files)
      : files_(files) {}

  // Returns false if no later message is needed: an unwanted file begins, or a
  // wanted one is as long as it should be.
  bool Accept(const v1::DownloadResponse& part);
  // Removes the bytes beyond the limit, and then an unfinished line.
  void Cut();
  // Drops the incomplete file.
  void Drop();

 private:
  bool Begin(const v1::DownloadResponse::File& file);

  std::map<std::string, std::string>& files_;
  std::string name_;
  std::string* text_ = nullptr;  // of the current file
  int64_t limit_ = 0;
};

// `message` in Protocol Buffers' own JSON with the proto's names: fields that
// are 0 or empty are omitted, int64 and non-finite numbers are strings. The run
// document contains it; mpsctl prints ToJson()'s (client/text/json.h).
std::string ProtoJson(const google::protobuf::Message& message);

// Takes any number of a job's events, and keeps what a page needs to draw them:
// of the steps and the evaluations those that run_page::KeptPoints() keeps, of
// the others the latest.
class KeptEvents {
 public:
  // `most_steps`: Progress events that are kept, at least 64.
  explicit KeptEvents(size_t most_steps) : most_steps_(most_steps) {}

  // Takes an event that comes after those taken before.
  void Add(v1::JobEvent& event);

  // The events for the run document, and how many are omitted. Call it once, at
  // the end.
  void Finish(run_page::RunData* run);

 private:
  // Thins `events` out to `most`.
  static void ThinOut(std::vector<v1::JobEvent>& events, size_t most);

  const size_t most_steps_;
  std::vector<v1::JobEvent> steps_;
  std::vector<v1::JobEvent> evaluations_;
  std::deque<v1::JobEvent> others_;
  size_t others_bytes_ = 0;
  int64_t all_steps_ = 0;
  int64_t all_evaluations_ = 0;
  int64_t all_others_ = 0;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUN_KEPT_EVENTS_H_
