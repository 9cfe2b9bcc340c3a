// SPDX-License-Identifier: Apache-2.0
#include "server/hub/pull.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"
#include "core/base/strings.h"
#include "core/spec/model_config.h"

namespace mpsd::hub {
namespace {

constexpr int kTries = 6;  // without a new MiB between
constexpr int64_t kProgressBytes = 1 << 20;
constexpr absl::Duration kLongestPause = absl::Minutes(1);
// A server that asks for a longer wait is not waited for.
constexpr absl::Duration kLongestWait = absl::Hours(1);
constexpr absl::Duration kLockPause = absl::Milliseconds(500);
constexpr int64_t kRoomInterval = int64_t{64} << 20;

std::string Sized(const HubFile& file) {
  if (file.size < int64_t{1000} * 1000)
    return absl::StrCat(file.size / 1000, " kB");
  return absl::StrCat(file.size / 1000 / 1000, " MB");
}

// A whole number of seconds, for people.
std::string Shown(absl::Duration wait) {
  return absl::FormatDuration(
      std::max(absl::Ceil(wait, absl::Seconds(1)), absl::Seconds(1)));
}

}  // namespace

// Puts a file's bytes into its part, and looks at the disk from time to time:
// others fill it too.
class Pull::PartReceiver final : public HubClient::Receiver {
 public:
  PartReceiver(Pull& pull, const HubFile& file, CachePart& part)
      : pull_(pull), file_(file), part_(part), checked_(part.size()) {}

  absl::Status Begin(int64_t offset) override {
    const int64_t before = part_.size();
    absl::Status s = part_.Begin(offset);
    pull_.news_.received_bytes += part_.size() - before;
    checked_ = part_.size();
    return s;
  }
  absl::Status Take(std::string_view bytes) override {
    if (part_.size() - checked_ >= kRoomInterval) {
      checked_ = part_.size();
      absl::Status room = pull_.options_.check_room(file_.size - part_.size());
      if (!room.ok()) return room;
    }
    const int64_t before = part_.size();
    absl::Status s = part_.Append(bytes);
    pull_.news_.received_bytes += part_.size() - before;
    if (s.ok()) pull_.Tell("");
    return s;
  }

 private:
  Pull& pull_;
  const HubFile& file_;
  CachePart& part_;
  int64_t checked_;
};

Pull::Pull(Options options, std::string id, std::string revision,
           std::string commit, std::string token)
    : options_(std::move(options)),
      id_(std::move(id)),
      revision_(std::move(revision)),
      pinned_(std::move(commit)),
      client_(options_.settings, std::move(token), options_.client) {}

void Pull::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  client_.Interrupt();
}

bool Pull::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopped_;
}

bool Pull::Sleep(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&stopped_), duration);
}

void Pull::Tell(const std::string& note) {
  news_.note = note;
  options_.on_news(news_);
}

absl::Status Pull::Again(const std::function<absl::Status()>& attempt) {
  int tries = 0;
  absl::Duration pause = options_.first_pause;
  int64_t before = news_.received_bytes;
  while (true) {
    absl::Status status = attempt();
    if (!absl::IsUnavailable(status)) return status;
    if (news_.received_bytes - before >= kProgressBytes) {
      tries = 0;
      pause = options_.first_pause;
    }
    before = std::max(before, news_.received_bytes);
    const absl::Duration wait = std::max(pause, client_.asked_wait());
    if (++tries == kTries || wait > kLongestWait) {
      return absl::UnavailableError(absl::StrCat(
          status.message(),
          wait > kLongestWait
              ? absl::StrCat("; it asks to wait for ", Shown(wait))
              : absl::StrCat(", ", tries, " times"),
          ": pull again later, the pull goes on where it broke off"));
    }
    Tell(absl::StrCat(status.message(), "; next try in ", Shown(wait)));
    if (!Sleep(wait)) return absl::CancelledError("the pull ends");
    pause = std::min(pause * 2, kLongestPause);
  }
}

absl::Status Pull::DescribeFiles() {
  // A revision may name another commit meanwhile; half of one and half of the
  // other were no model.
  const std::string& revision = pinned_.empty() ? revision_ : pinned_;
  absl::Status s = Again([&] {
    absl::StatusOr<Listing> listing = client_.Describe(id_, revision);
    if (!listing.ok()) return listing.status();
    listing_ = *std::move(listing);
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  if (!pinned_.empty() && listing_.commit != pinned_) {
    return absl::DataLossError("the hub names another commit than asked for");
  }
  options_.on_commit(listing_.commit);
  absl::StatusOr<CacheFolder> cache = CacheFolder::Open(options_.cache, id_);
  if (!cache.ok()) return cache.status();
  cache_ = *std::move(cache);
  news_.commit = listing_.commit;
  CountReceived();
  Tell(absl::StrCat(listing_.files.size(), " files at commit ",
                    listing_.commit.substr(0, 12)));
  return absl::OkStatus();
}

void Pull::CountReceived() {
  news_.total_bytes = listing_.TotalBytes();
  news_.received_bytes = 0;
  for (const HubFile& file : listing_.files) {
    news_.received_bytes += cache_->BytesOf(file);
  }
}

absl::StatusOr<std::string> Pull::Read(const HubFile& file) const {
  return base::ReadSmallFile(cache_->BlobOf(file), limits::kModelFileBytes);
}

// A model that mpsd cannot train is refused before its weights come.
absl::Status Pull::FetchConfig() {
  const HubFile& file = *listing_.Find(kConfig);
  if (absl::Status s = Fetch(file); !s.ok()) return s;
  const absl::StatusOr<std::string> text = Read(file);
  if (!text.ok()) return text.status();
  const auto config = spec::ParseModelConfig(*text, kConfig);
  if (config.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("mpsd cannot train ", id_, ": ", config.status().message()));
}

absl::Status Pull::FetchIndex() {
  const HubFile* file = listing_.Find(kIndex);
  if (file == nullptr) return absl::OkStatus();
  if (file->size > static_cast<int64_t>(limits::kModelFileBytes)) {
    return absl::FailedPreconditionError(
        base::Cat(kIndex, " is too large to be one"));
  }
  if (absl::Status s = Fetch(*file); !s.ok()) return s;
  const absl::StatusOr<std::string> text = Read(*file);
  if (!text.ok()) return text.status();
  if (absl::Status s = KeepShards(*text, listing_); !s.ok()) return s;
  CountReceived();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CachePart>> Pull::WaitForPart(
    const HubFile& file) {
  bool told = false;
  while (true) {
    absl::StatusOr<std::unique_ptr<CachePart>> part =
        cache_->OpenPart(file, [this] { return stopped(); });
    if (!absl::IsAborted(part.status())) return part;
    if (!told) {
      Tell(absl::StrCat(file.path, ": ", part.status().message(), ", waiting"));
    }
    told = true;
    if (!Sleep(kLockPause)) return absl::CancelledError("the pull ends");
  }
}

absl::Status Pull::FetchPart(const HubFile& file, CachePart& part) {
  if (part.size() < file.size) {
    PartReceiver receiver(*this, file, part);
    absl::Status s =
        client_.Download(id_, listing_.commit, file, part.size(), receiver);
    if (absl::IsDataLoss(s) || absl::IsOutOfRange(s)) {
      absl::Status thrown = receiver.Begin(0);
      if (!thrown.ok()) return thrown;
    }
    if (absl::IsOutOfRange(s)) {
      return absl::UnavailableError(absl::StrCat(
          "the hub does not go on with ", file.path, ", which begins anew"));
    }
    if (!s.ok()) return s;
    if (part.size() < file.size) {
      return absl::UnavailableError(absl::StrCat("the hub ends ", file.path,
                                                 " after ", part.size(), " of ",
                                                 file.size, " bytes"));
    }
  }
  return part.Finish();
}

absl::Status Pull::Fetch(const HubFile& file) {
  // A part of an earlier pull may be what spoils the hash: without it the file
  // gets a second chance.
  for (int round = 0;; ++round) {
    if (cache_->Has(file)) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<CachePart>> part = WaitForPart(file);
    if (!part.ok()) return part.status();
    if (cache_->Has(file)) return absl::OkStatus();  // by another program
    const int64_t from = (*part)->size();
    Tell(from == 0 ? absl::StrCat(file.path, ", ", Sized(file))
                   : absl::StrCat(file.path, ", ", Sized(file), ", goes on at ",
                                  from * 100 / file.size, "%"));
    absl::Status s = Again([&] { return FetchPart(file, **part); });
    if (!absl::IsDataLoss(s)) return s;
    CountReceived();
    if (from == 0 || round > 0) return s;
    Tell(absl::StrCat(s.message(), ": it begins anew"));
  }
}

absl::Status Pull::Run() {
  absl::Status s = DescribeFiles();
  if (s.ok()) s = FetchConfig();
  if (s.ok()) s = FetchIndex();
  if (!s.ok()) return s;
  s = options_.check_room(news_.total_bytes - news_.received_bytes);
  if (!s.ok()) return s;
  // The small files first: what is wrong with them shows early.
  std::vector<HubFile> files = listing_.files;
  std::stable_sort(
      files.begin(), files.end(),
      [](const HubFile& a, const HubFile& b) { return a.size < b.size; });
  for (const HubFile& file : files) {
    if (absl::Status fetched = Fetch(file); !fetched.ok()) return fetched;
  }
  CountReceived();
  return cache_->Publish(listing_, revision_);
}

}  // namespace mpsd::hub
