// SPDX-License-Identifier: Apache-2.0
#include "server/hub/puller.h"

#include <algorithm>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/limits.h"
#include "server/hub/hub_id.h"
#include "server/hub/watched_pull.h"
#include "server/models/model_name.h"

namespace mpsd::hub {
namespace {

// How long a part is kept for the next pull of its model.
constexpr absl::Duration kPartsKept = absl::Hours(7 * 24);
// How long Cancel waits for a pull that hangs in the disk.
constexpr absl::Duration kCancelPatience = absl::Seconds(10);

std::string Named(const std::string& id, const std::string& revision) {
  return absl::StrCat(id, "@", revision);
}

// The token, or what keeps a pull from beginning.
absl::StatusOr<std::string> Token(const Settings& settings) {
  absl::StatusOr<std::string> token = ReadToken(settings.token_file);
  if (token.ok()) return token;
  return absl::FailedPreconditionError(
      absl::StrCat("mpsd cannot read the hub's token (--hub-token-file): ",
                   token.status().message()));
}

}  // namespace

fetch::Client::Options Puller::Options::DefaultClient() {
  fetch::Client::Options client;
  client.connect_timeout = absl::Seconds(20);
  client.stall = absl::Seconds(60);
  return client;
}

Puller::Puller(Options options, models::PullStore& store,
               const base::Clock& clock)
    : options_(std::move(options)), store_(store), clock_(clock) {}

Puller::~Puller() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    for (auto& [key, active] : active_) {
      active.stopped = absl::UnavailableError(
          "mpsd stops; the pull goes on when it starts again");
      active.pull->Stop();
    }
    mutex_.Await(absl::Condition(
        +[](std::map<Key, Active>* active) { return active->empty(); },
        &active_));
  }
  for (std::thread& thread : Ended()) thread.join();
}

std::vector<std::thread> Puller::Ended() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(ended_, {});
}

absl::Status Puller::Recover() {
  const absl::StatusOr<std::vector<models::KeptPull>> kept = store_.List();
  if (!kept.ok()) return kept.status();
  for (const models::KeptPull& pull : *kept) {
    absl::StatusOr<std::string> token = Token(options_.settings);
    if (options_.settings.url.empty() || !token.ok()) {
      options_.log(absl::StrCat(
          "the pull of ", Named(pull.id, pull.revision),
          " waits for a restart with a hub: ",
          token.ok() ? "--hub is not given" : token.status().message()));
      continue;
    }
    absl::MutexLock lock(&mutex_);
    Start(pull, *std::move(token));
  }
  return absl::OkStatus();
}

absl::Status Puller::CheckNew(const models::PullRequest& request) const {
  if (closing_) return absl::UnavailableError("mpsd stops");
  std::vector<std::string> names;
  for (const auto& [key, active] : active_) {
    names.push_back(Named(key.first, key.second));
    if (key.first != request.id &&
        models::FoldedName(key.first) == models::FoldedName(request.id)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "id: ", key.first, " is being pulled, which differs from ",
          request.id, " by upper and lower case alone"));
    }
  }
  if (names.size() < static_cast<size_t>(limits::kPulls)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      limits::kPulls, " pulls are under way (", absl::StrJoin(names, ", "),
      "): wait for one, or cancel it"));
}

absl::StatusOr<std::unique_ptr<models::PullWatch>> Puller::Pull(
    const models::PullRequest& request, std::function<void()> wake) {
  for (std::thread& thread : Ended()) thread.join();
  if (options_.settings.url.empty()) {
    return absl::FailedPreconditionError(
        "this mpsd pulls no models, for it knows no hub (mpsd's --hub): push "
        "the model's folder (mpsctl model push)");
  }
  if (absl::Status s = CheckHubId(request.id); !s.ok()) return s;
  const Key key(request.id, request.revision);
  absl::MutexLock lock(&mutex_);
  if (auto it = active_.find(key); it != active_.end()) {
    if (!it->second.stopped.ok()) {
      return absl::UnavailableError(
          absl::StrCat("the pull of ", Named(request.id, request.revision),
                       " is just ending: pull again"));
    }
    return it->second.watched->Watch(std::move(wake));
  }
  if (absl::Status s = CheckNew(request); !s.ok()) return s;
  absl::StatusOr<std::string> token = Token(options_.settings);
  if (!token.ok()) return token.status();
  const models::KeptPull kept{request.id, request.revision, request.user, "",
                              clock_.Now()};
  // A row that an earlier mpsd left, which could not go on with it.
  if (absl::Status s = store_.Remove(kept.id, kept.revision); !s.ok()) return s;
  if (absl::Status s = store_.Add(kept); !s.ok()) return s;
  Start(kept, *std::move(token));
  return active_.at(key).watched->Watch(std::move(wake));
}

hub::Pull::Options Puller::OptionsOf(const models::KeptPull& kept,
                                     std::shared_ptr<WatchedPull> watched) {
  const Key key(kept.id, kept.revision);
  hub::Pull::Options options;
  options.settings = options_.settings;
  options.cache = options_.cache;
  options.client = options_.client;
  options.client.ca_file = options_.settings.ca_file;
  options.first_pause = options_.first_pause;
  options.check_room = [this, key](int64_t bytes) {
    return CheckRoom(key, bytes);
  };
  options.on_commit = [this, key](const std::string& commit) {
    const absl::Status s = store_.SetCommit(key.first, key.second, commit);
    if (!s.ok()) {
      options_.log(absl::StrCat("the commit of ", Named(key.first, key.second),
                                " is not stored: ", s.message()));
    }
  };
  options.on_news = [this, watched = std::move(watched),
                     before = int64_t{-1}](const models::PullNews& n) mutable {
    // What earlier pulls brought was counted then.
    if (before >= 0 && n.received_bytes > before && n.note.empty()) {
      options_.received(n.received_bytes - before);
    }
    before = n.received_bytes;
    watched->Tell(n);
  };
  return options;
}

void Puller::Start(const models::KeptPull& kept, std::string token) {
  const Key key(kept.id, kept.revision);
  Active& active = active_[key];
  active.watched = std::make_shared<WatchedPull>(clock_);
  active.user = kept.user;
  active.pull =
      std::make_unique<hub::Pull>(OptionsOf(kept, active.watched), kept.id,
                                  kept.revision, kept.commit, std::move(token));
  options_.log(absl::StrCat("pulls ", Named(kept.id, kept.revision), " for ",
                            kept.user));
  options_.running(static_cast<int>(active_.size()));
  active.thread = std::thread([this, key, pull = active.pull.get()] {
    const int old =
        CacheFolder::RemoveOldParts(options_.cache, clock_.Now() - kPartsKept);
    if (old > 0) {
      options_.log(absl::StrCat("removed ", old,
                                " parts of models that nobody pulled again"));
    }
    End(key, pull->Run());
  });
}

void Puller::End(const Key& key, absl::Status status) {
  bool closing;
  {
    absl::MutexLock lock(&mutex_);
    closing = closing_;
    const absl::Status& stopped = active_.at(key).stopped;
    if (!status.ok() && !stopped.ok()) status = stopped;
  }
  const PullEnd end = status.ok()                 ? PullEnd::kSucceeded
                      : absl::IsCancelled(status) ? PullEnd::kCancelled
                                                  : PullEnd::kFailed;
  const std::string name = Named(key.first, key.second);
  // The row goes before anybody hears of the end: who hears it may pull again.
  if (!closing || status.ok()) {
    const absl::Status forgotten = store_.Remove(key.first, key.second);
    if (!forgotten.ok()) {
      options_.log(absl::StrCat("the pull of ", name, " has ended and is not ",
                                "forgotten: ", forgotten.message()));
    }
    options_.count(end);
  }
  options_.log(
      absl::StrCat("the pull of ", name,
                   status.ok() ? " is done" : " ended: ", status.message()));
  std::shared_ptr<WatchedPull> watched;
  {
    absl::MutexLock lock(&mutex_);
    auto it = active_.find(key);
    watched = std::move(it->second.watched);
    ended_.push_back(std::move(it->second.thread));
    active_.erase(it);
    options_.running(static_cast<int>(active_.size()));
    watched->End(std::move(status));
  }
}

absl::Status Puller::CheckRoom(const Key& key, int64_t bytes) const {
  int64_t others = 0;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [other, active] : active_) {
      if (other != key) others += active.watched->BytesLeft();
    }
  }
  std::error_code error;
  const auto space = std::filesystem::space(options_.cache, error);
  // A disk that does not tell counts as having room: a write then fails.
  if (error) return absl::OkStatus();
  const int64_t free = static_cast<int64_t>(
      std::min<uintmax_t>(space.available, int64_t{1} << 62));
  if (bytes <= free - options_.min_free_bytes - others) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "there is no room for ", bytes, " bytes: the disk of ",
      options_.cache.string(), " has ", free, " free, of which ", others,
      " are for other pulls and ", options_.min_free_bytes,
      " are kept free (mpsd --min-free-bytes); what came is kept for the next "
      "pull"));
}

absl::Status Puller::Cancel(const models::PullRequest& request) {
  const Key key(request.id, request.revision);
  const std::string name = Named(request.id, request.revision);
  {
    absl::MutexLock lock(&mutex_);
    const auto it = active_.find(key);
    if (it == active_.end()) {
      return absl::NotFoundError(
          absl::StrCat("no pull of ", name, " is under way"));
    }
    Active& active = it->second;
    if (active.user != request.user && !request.is_admin) {
      return absl::PermissionDeniedError(
          absl::StrCat("the pull of ", name, " is ", active.user, "'s: ask ",
                       active.user, " or an admin to cancel it"));
    }
    // A kill that comes before the thread's end finds no row.
    if (absl::Status s = store_.Remove(key.first, key.second); !s.ok()) {
      return s;
    }
    active.stopped = absl::CancelledError(
        absl::StrCat(request.user, " cancelled the pull of ", name));
    active.pull->Stop();
    const auto gone = [this, key]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !active_.contains(key);
    };
    mutex_.AwaitWithTimeout(absl::Condition(&gone), kCancelPatience);
  }
  return absl::OkStatus();
}

bool Puller::IsPulling(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  return std::any_of(active_.begin(), active_.end(), [&](const auto& entry) {
    return models::FoldedName(entry.first.first) == models::FoldedName(id);
  });
}

int Puller::running() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(active_.size());
}

}  // namespace mpsd::hub
