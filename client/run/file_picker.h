// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_RUN_FILE_PICKER_H_
#define MPSD_CLIENT_RUN_FILE_PICKER_H_

#include <cstdint>
#include <map>
#include <string>

#include "mpsd/v1/artifacts.pb.h"

namespace mpsd::client {

// Takes the small text files that a run's page shows out of the messages of a
// Download: run.json, confusion_matrix.json and the first lines of
// predictions.jsonl. A file of more than 1 MiB is left out, and predictions end
// after 64 KiB.
class FilePicker {
 public:
  // `files` gets the files by name, and must outlive the picker.
  explicit FilePicker(std::map<std::string, std::string>& files)
      : files_(files) {}

  // Returns false where nothing after this message is wanted: a file that is
  // not begins, or a wanted one has come as far as it should.
  bool Accept(const v1::DownloadResponse& part);
  // Takes the bytes beyond the limit, and then a line without its end, away.
  void Cut();
  // Forgets the file that has not come whole.
  void Drop();

 private:
  bool Begin(const v1::DownloadResponse::File& file);

  std::map<std::string, std::string>& files_;
  std::string name_;
  std::string* text_ = nullptr;  // of the file that is coming
  int64_t limit_ = 0;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_RUN_FILE_PICKER_H_
