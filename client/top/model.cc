// SPDX-License-Identifier: Apache-2.0
#include "client/top/model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "client/text/format.h"

namespace mpsd::client::top {
namespace {

constexpr size_t kLongestFilter = 100;
constexpr int kAll = std::numeric_limits<int>::max() / 2;

void AddLast(double value, std::deque<double>* values) {
  values->push_back(value);
  if (values->size() > Watched::kLastSteps) values->pop_front();
}

}  // namespace

Model::Model(std::string target, absl::Time now)
    : target_(std::move(target)), answered_(now) {}

std::string Model::shown_id() const {
  return pinned_.empty() ? last_running_ : pinned_;
}

void Model::Follow() {
  const std::string id = shown_id();
  if (id.empty()) {
    watched_.reset();
  } else if (!watched_ || watched_->id != id) {
    watched_.emplace(id);
  }
}

void Model::Apply(const Update& update) {
  if (const auto* answer = std::get_if<Answered>(&update)) {
    ApplyAnswer(*answer);
  } else if (const auto* listed = std::get_if<Listed>(&update)) {
    list_.Replace(listed->rows, listed->more);
    listed_ = true;
  } else if (const auto* lost = std::get_if<Lost>(&update)) {
    lost_ = lost->why;
  } else if (const auto* shown = std::get_if<ShownJob>(&update)) {
    if (!watched_ || watched_->id != shown->job.id()) return;
    watched_->job = shown->job;
    watched_->known = true;
  } else if (const auto* event = std::get_if<ShownEvent>(&update)) {
    ApplyEvent(*event);
  } else if (const auto* gone = std::get_if<NotShown>(&update)) {
    if (pinned_ == gone->id) pinned_.clear();
    if (last_running_ == gone->id) last_running_.clear();
    Follow();
  } else if (const auto* log = std::get_if<LogData>(&update)) {
    if (!log_ || log_->id != log->id) return;
    const size_t before = log_->log.lines().size();
    log_->log.Add(log->data);
    // Whoever looks back keeps the lines in view.
    const size_t added = log_->log.lines().size() - before;
    if (log_->below > 0) log_->below += added;
  } else if (const auto* ended = std::get_if<LogEnded>(&update)) {
    if (log_ && log_->id == ended->id) log_->error = ended->why;
  } else if (const auto* cancelled = std::get_if<Cancelled>(&update)) {
    message_ = cancelled->text;
    message_is_good_ = cancelled->good;
  }
}

void Model::ApplyAnswer(const Answered& answer) {
  info_ = answer.info;
  answered_ = answer.time;
  lost_.clear();
  if (!answer.info.running_job_id().empty()) {
    last_running_ = answer.info.running_job_id();
  }
  Follow();
  for (const v1::Job& job : answer.running) {
    if (listed_) list_.Update(RowOf(job));
    if (!watched_ || watched_->id != job.id()) continue;
    // The row knows what events do not tell: a pause, a hold.
    watched_->job = job;
    watched_->known = true;
  }
}

void Model::ApplyEvent(const ShownEvent& update) {
  if (!watched_ || watched_->id != update.id) return;
  const v1::JobEvent& event = update.event;
  watched_->losses.Add(event);
  v1::Job& job = watched_->job;
  if (event.has_state()) {
    job.set_state(event.state().state());
    if (!event.state().message().empty()) {
      job.set_message(event.state().message());
    }
  } else if (event.has_progress()) {
    *job.mutable_progress() = event.progress();
    AddLast(event.progress().step_seconds(), &watched_->step_seconds);
    AddLast(event.progress().tokens_per_second(), &watched_->tokens_per_second);
    if (watched_->known) list_.Refresh(RowOf(job));
  } else if (event.has_evaluated()) {
    if (event.evaluated().step() == 0) {
      job.set_eval_loss_before(event.evaluated().eval_loss());
    } else {
      job.set_eval_loss_after(event.evaluated().eval_loss());
    }
  }
}

bool Model::MoveBy(const Key& key, int* by) const {
  switch (key.kind) {
    case Key::kUp:
      *by = -1;
      return true;
    case Key::kDown:
      *by = 1;
      return true;
    case Key::kPageUp:
      *by = -page_;
      return true;
    case Key::kPageDown:
      *by = page_;
      return true;
    case Key::kHome:
      *by = -kAll;
      return true;
    case Key::kEnd:
      *by = kAll;
      return true;
    case Key::kCharacter:
      *by = key.character == 'j' ? 1 : key.character == 'k' ? -1 : 0;
      return *by != 0;
    default:
      return false;
  }
}

Model::Wish Model::Press(const Key& key) {
  if (key.kind == Key::kInterrupt) return {Wish::kInterrupt, ""};
  if (key.kind == Key::kSuspend) return {Wish::kSuspend, ""};
  if (key.kind == Key::kRedraw || key.kind == Key::kResize) {
    return {Wish::kRedraw, ""};
  }
  message_.clear();
  switch (mode_) {
    case Mode::kList:
      return PressInList(key);
    case Mode::kFilter:
      PressInFilter(key);
      return {};
    case Mode::kQuestion:
      return PressInQuestion(key);
    case Mode::kLog:
      PressInLog(key);
      return {};
    case Mode::kHelp:
      mode_ = Mode::kList;
      return {};
  }
  return {};
}

Model::Wish Model::PressInList(const Key& key) {
  int by = 0;
  if (MoveBy(key, &by)) {
    list_.Move(by);
    return {};
  }
  const JobRow* selected = list_.selected();
  if (key.kind == Key::kEnter && selected != nullptr) {
    pinned_ = selected->id;
    Follow();
  }
  if (key.kind == Key::kEscape) {
    pinned_.clear();
    list_.SetFilter("");
    Follow();
  }
  if (key.kind != Key::kCharacter) return {};
  switch (key.character) {
    case 'q':
      return {Wish::kQuit, ""};
    case 's':
    case 'S':
      list_.ChangeOrder(key.character == 's' ? 1 : -1);
      break;
    case 'r':
      list_.Reverse();
      break;
    case 'e':
      list_.HideEnded(!list_.hides_ended());
      break;
    case '/':
      mode_ = Mode::kFilter;
      typed_ = list_.filter();
      break;
    case '?':
    case 'h':
      mode_ = Mode::kHelp;
      break;
    case 'l':
      if (selected == nullptr) break;
      mode_ = Mode::kLog;
      log_.emplace(selected->id);
      break;
    case 'c':
      if (selected == nullptr) break;
      asked_ = *selected;
      mode_ = Mode::kQuestion;
      return {Wish::kAnswer, ""};
    default:
      break;
  }
  return {};
}

void Model::PressInFilter(const Key& key) {
  if (key.kind == Key::kEnter) {
    mode_ = Mode::kList;
    return;
  }
  if (key.kind == Key::kEscape) {
    typed_.clear();
    mode_ = Mode::kList;
  } else if (key.kind == Key::kBackspace) {
    // The bytes of a character go together.
    while (!typed_.empty() && (typed_.back() & 0xC0) == 0x80) typed_.pop_back();
    if (!typed_.empty()) typed_.pop_back();
  } else if (key.kind == Key::kCharacter && typed_.size() < kLongestFilter) {
    AppendUtf8(key.character, typed_);
  }
  list_.SetFilter(typed_);
}

Model::Wish Model::PressInQuestion(const Key& key) {
  mode_ = Mode::kList;
  const bool yes = key.kind == Key::kCharacter &&
                   (key.character == 'y' || key.character == 'Y');
  return yes ? Wish{Wish::kCancel, asked_.id} : Wish{};
}

void Model::PressInLog(const Key& key) {
  int by = 0;
  if (MoveBy(key, &by)) {
    const auto lines = static_cast<int64_t>(log_->log.lines().size());
    const int64_t most = std::max<int64_t>(0, lines - 1);
    log_->below = static_cast<size_t>(
        std::clamp(static_cast<int64_t>(log_->below) - by, int64_t{0}, most));
    return;
  }
  const bool leave = key.kind == Key::kEscape ||
                     (key.kind == Key::kCharacter &&
                      (key.character == 'q' || key.character == 'l'));
  if (!leave) return;
  mode_ = Mode::kList;
  log_.reset();
}

}  // namespace mpsd::client::top
