// SPDX-License-Identifier: Apache-2.0
#include "client/run_files.h"

#include <algorithm>

#include "client/connection.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

using Files = std::map<std::string, std::string>;

constexpr int64_t kMostBytes = 1 << 20;         // of a file that is kept whole
constexpr int64_t kPredictionBytes = 64 << 10;  // of the predictions

struct WantedFile {
  const char* name;
  bool cut;  // the first whole lines are enough
};
constexpr WantedFile kWanted[] = {{"run.json", false},
                                  {"confusion_matrix.json", false},
                                  {"predictions.jsonl", true}};

// Takes the wanted files out of a Download stream.
class FilePicker {
 public:
  explicit FilePicker(Files& files) : files_(files) {}

  // Returns false where nothing after this message is wanted: a file that is
  // not begins, or a wanted one has come as far as it should.
  bool Accept(const v1::DownloadResponse& part) {
    if (part.has_file()) {
      Cut();
      return Begin(part.file());
    }
    if (text_ == nullptr) return false;
    text_->append(part.data());
    return static_cast<int64_t>(text_->size()) < limit_;
  }

  // Takes the bytes beyond the limit, and then a line without its end, away.
  void Cut() {
    if (text_ == nullptr || static_cast<int64_t>(text_->size()) <= limit_) {
      return;
    }
    text_->resize(static_cast<size_t>(limit_));
    text_->erase(text_->rfind('\n') + 1);  // npos + 1 is 0
  }

  // Forgets the file that has not come whole.
  void Drop() {
    if (text_ != nullptr) files_.erase(name_);
    text_ = nullptr;
  }

 private:
  bool Begin(const v1::DownloadResponse::File& file) {
    const auto* wanted = std::find_if(
        std::begin(kWanted), std::end(kWanted),
        [&](const WantedFile& one) { return file.path() == one.name; });
    text_ = nullptr;
    if (wanted == std::end(kWanted)) return false;
    if (!wanted->cut && file.size_bytes() > kMostBytes) return false;
    name_ = file.path();
    text_ = &files_[name_];
    limit_ = wanted->cut ? kPredictionBytes : kMostBytes;
    return true;
  }

  Files& files_;
  std::string name_;
  std::string* text_ = nullptr;  // of the file that is coming
  int64_t limit_ = 0;
};

bool IsMissing(const grpc::Status& status) {
  const grpc::StatusCode code = status.error_code();
  return code == grpc::StatusCode::NOT_FOUND ||
         code == grpc::StatusCode::FAILED_PRECONDITION ||
         code == grpc::StatusCode::INVALID_ARGUMENT;  // an older daemon
}

void Fetch(const Console& console, const v1::DownloadRequest& request,
           Files& files) {
  grpc::ClientContext context;
  SetDeadline(context);
  auto reader = console.daemon.artifacts().Download(&context, request);
  v1::DownloadResponse part;
  FilePicker picker(files);
  bool wanted = true;
  while (wanted && reader->Read(&part)) wanted = picker.Accept(part);
  picker.Cut();
  if (!wanted) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wanted || status.ok() || IsMissing(status)) return;
  picker.Drop();
  console.err << "mpsctl: some files of job " << request.job_id()
              << " are left out: " << Printable(status.error_message()) << '\n';
}

}  // namespace

Files ReadRunFiles(const Console& console, const std::string& job_id) {
  Files files;
  v1::DownloadRequest request;
  request.set_job_id(job_id);
  request.set_manifest(true);
  Fetch(console, request, files);
  request.set_predictions(true);
  Fetch(console, request, files);
  return files;
}

}  // namespace mpsd::client
