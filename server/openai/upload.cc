// SPDX-License-Identifier: Apache-2.0
#include "server/openai/upload.h"

#include <climits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/printable.h"
#include "core/base/utf8.h"
#include "server/openai/multipart.h"
#include "server/openai/objects.h"

namespace mpsd::openai {
namespace {

constexpr size_t kValueBytes = 256;  // of a field of the form
// What is counted for the user at a time, once more comes than was announced.
constexpr int64_t kMoreBytes = 16 << 20;

constexpr access::Method kUpload = "ArtifactService.Upload";

rpc::Asked Asked() { return {kUpload, "", "by /v1/files"}; }

absl::Status Fault(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = base::CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// A name that one file can have, on whatever system, and that no screen obeys.
absl::Status CheckFileName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.size() > NAME_MAX ||
      name.find('/') != std::string::npos || !IsUtf8(name) ||
      !base::IsPrintable(name)) {
    return Fault("file",
                 absl::StrCat("'", base::Quotable(name),
                              "' is no file's name: expected 1 to ", NAME_MAX,
                              " bytes of UTF-8 without slashes and control "
                              "characters"));
  }
  return absl::OkStatus();
}

}  // namespace

// One upload under way.
class Uploads::Body final : public http::Body, public FormSink {
 public:
  Body(Uploads& uploads, http::Request request, access::Rights rights,
       int64_t entry, const std::string& boundary)
      : uploads_(uploads),
        desk_(uploads.desk_),
        request_(std::move(request)),
        rights_(std::move(rights)),
        entry_(entry),
        start_(absl::Now()),
        reader_(boundary, *this) {}
  ~Body() override {
    uploads_.Leave(user());
    if (!ended_) Note(absl::CancelledError("the upload broke off"));
  }

  std::optional<http::Response> Take(std::string_view bytes) override {
    // The token may have been revoked since the last piece.
    absl::Status taken = desk_.CallerOf(request_).status();
    if (taken.ok()) taken = reader_.Take(bytes);
    if (taken.ok()) return std::nullopt;
    return Answer(taken);
  }

  http::Response End() override {
    jobs::NamedFile file;
    absl::Status stored = reader_.End();
    if (stored.ok()) stored = Store(file);
    return stored.ok() ? Answer(stored, FileObject(file)) : Answer(stored);
  }

  absl::Status BeginPart(const FormPart& part) override {
    field_ = part.name;
    if (field_ == "file") return BeginFile(part);
    if (field_ == "purpose") {
      if (purpose_) return Fault(field_, "comes twice");
      purpose_ = "";
      return absl::OkStatus();
    }
    if (field_.starts_with("expires_after")) {
      return Fault("expires_after",
                   "files stay until they are deleted; leave it out");
    }
    return Fault("form", absl::StrCat("'", base::Quotable(field_),
                                      "' is no field here; there are: file, "
                                      "purpose"));
  }

  absl::Status PartBytes(std::string_view bytes) override {
    if (field_ == "file") return AppendToFile(bytes);
    if (purpose_->size() + bytes.size() > kValueBytes) {
      return Fault(field_, "is too long");
    }
    purpose_->append(bytes);
    return absl::OkStatus();
  }

  absl::Status EndPart() override {
    if (field_ != "purpose" || *purpose_ == "fine-tune") {
      return absl::OkStatus();
    }
    return Fault("purpose",
                 "expected \"fine-tune\": mpsd trains, and does nothing else");
  }

 private:
  const std::string& user() const { return rights_.caller().user; }

  absl::Status BeginFile(const FormPart& part) {
    if (blob_ != nullptr) return Fault("file", "comes twice");
    name_ = part.filename.value_or("");
    if (absl::Status s = CheckFileName(name_); !s.ok()) return s;
    // The announced length is the form's, a little more than the file's.
    const int64_t announced = request_.content_length.value_or(0);
    claim_ = desk_.backend().accounts.BeginUpload(rights_);
    if (absl::Status room = Claim(announced); !room.ok()) return room;
    absl::StatusOr<std::unique_ptr<jobs::UnnamedBlob>> blob =
        desk_.backend().uploads.BeginUnnamed(announced);
    if (!blob.ok()) return blob.status();
    blob_ = *std::move(blob);
    return absl::OkStatus();
  }

  // Holds more bytes for the user, under no blob's name.
  absl::Status Claim(int64_t bytes) {
    if (claim_ == nullptr || bytes == 0) return absl::OkStatus();
    absl::Status room = claim_->Add("", bytes);
    if (room.ok()) claimed_ += bytes;
    return room;
  }

  absl::Status AppendToFile(std::string_view bytes) {
    const auto size = static_cast<int64_t>(bytes.size());
    if (blob_->size_bytes() + size > claimed_) {
      absl::Status room = Claim(std::max(size, kMoreBytes));
      if (!room.ok()) return room;
    }
    return blob_->Append(bytes);
  }

  absl::Status Store(jobs::NamedFile& file) {
    if (blob_ == nullptr) return Fault("file", "is missing");
    if (!purpose_) return Fault("purpose", "is missing");
    if (blob_->size_bytes() == 0) return Fault("file", "is empty");
    absl::StatusOr<std::string> sha256 = blob_->Commit();
    if (!sha256.ok()) return sha256.status();
    claim_.reset();  // from here on the blob counts, or nothing
    const rpc::UserAccounts& accounts = desk_.backend().accounts;
    if (accounts.ledger != nullptr) {
      absl::Status counted =
          accounts.ledger->Use(user(), accounts.LimitsOf(rights_), {*sha256});
      if (!counted.ok()) return counted;
    }
    file = {
        absl::StrCat(std::string(jobs::kNamedFilePrefix), uploads_.ids_.Next()),
        user(),
        name_,
        *std::move(sha256),
        blob_->size_bytes(),
        absl::Now()};
    return desk_.backend().files.Insert(file);
  }

  http::Response Answer(const absl::Status& result, const Json& object = {}) {
    Note(result);
    return result.ok() ? JsonAnswer(object) : ErrorAnswer(result);
  }

  void Note(const absl::Status& result) {
    ended_ = true;
    desk_.gate().End(entry_, result, "");
    desk_.Count(kUpload.rule().method, result.code(), absl::Now() - start_);
  }

  Uploads& uploads_;
  const Desk& desk_;
  const http::Request request_;
  const access::Rights rights_;
  const int64_t entry_;  // of the audit
  const absl::Time start_;
  MultipartReader reader_;
  std::string field_;  // of the part under way
  std::optional<std::string> purpose_;
  std::string name_;
  std::unique_ptr<jobs::UploadClaim> claim_;  // null: nobody counts
  int64_t claimed_ = 0;
  std::unique_ptr<jobs::UnnamedBlob> blob_;  // from the file's beginning on
  bool ended_ = false;
};

Uploads::Uploads(const Desk& desk)
    : desk_(desk),
      ids_(base::Clock::Real(), jobs::JobIdGenerator::SystemRandom()) {}

bool Uploads::Enter(const std::string& user) {
  absl::MutexLock lock(&mutex_);
  int& uploads = of_user_[user];
  if (uploads >= kOfAUser) return false;
  ++uploads;
  return true;
}

void Uploads::Leave(const std::string& user) {
  absl::MutexLock lock(&mutex_);
  const auto entry = of_user_.find(user);
  if (--entry->second == 0) of_user_.erase(entry);
}

http::Begun Uploads::Begin(const http::Request& request) {
  const absl::StatusOr<access::Rights> rights = desk_.Enter(request, Asked());
  if (!rights.ok()) return ErrorAnswer(rights.status());
  const absl::StatusOr<std::string> boundary =
      MultipartBoundary(request.content_type);
  if (!boundary.ok()) return ErrorAnswer(boundary.status());
  const std::string& user = rights->caller().user;
  if (!Enter(user)) {
    return ErrorAnswer(absl::UnavailableError(
        absl::StrCat(kOfAUser, " uploads of yours are under way: try again")));
  }
  const absl::StatusOr<int64_t> entry = desk_.gate().Begin(Asked(), *rights);
  if (!entry.ok()) {
    Leave(user);
    return ErrorAnswer(entry.status());
  }
  return std::make_shared<Body>(*this, request, *rights, *entry, *boundary);
}

}  // namespace mpsd::openai
