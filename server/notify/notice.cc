// SPDX-License-Identifier: Apache-2.0
#include "server/notify/notice.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::notify {
namespace {

using nlohmann::ordered_json;

// A sentence that notification centres show in full.
constexpr size_t kTextBytes = 500;

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

// Texts that came from clients, workers and models are not always UTF-8.
std::string Dumped(const ordered_json& body) {
  return body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Finishes a notice whose other members are set. `details` are the body's
// members in addition to those that all notices have.
Notice WithBody(Notice notice, const Sender& sender,
                const ordered_json& details) {
  notice.text = base::Shortened(base::Printable(notice.text), kTextBytes);
  ordered_json body = {{"id", notice.id},
                       {"event", notice.event},
                       {"time", TimeText(notice.time)},
                       {"host", sender.host},
                       {"version", sender.version},
                       {"text", notice.text}};
  body.update(details);
  notice.body = Dumped(body);
  return notice;
}

std::string IdOf(const std::string& event, absl::Time time) {
  return absl::StrCat(event, "-", absl::ToUnixMicros(time));
}

template <typename T>
void Set(ordered_json& object, const char* name,
         const std::optional<T>& value) {
  if (value.has_value()) object[name] = *value;
}

ordered_json JobBody(const jobs::EndedJob& end, const jobs::Job& job) {
  ordered_json body = {{"id", end.job_id},
                       {"name", job.name},
                       {"owner", job.owner},
                       {"state", jobs::Name(end.state)},
                       {"attempt", job.attempt}};
  if (end.state != jobs::State::kSucceeded) body["error"] = end.message;
  if (job.progress) {
    body["step"] = job.progress->step;
    body["planned_steps"] = job.progress->total_steps;
    body["loss"] = job.progress->loss;
  }
  Set(body, "train_loss", job.train_loss);
  Set(body, "eval_loss", job.eval_loss_after);
  if (!job.metrics.empty()) {
    ordered_json& metrics = body["metrics"] = ordered_json::object();
    for (const auto& [name, value] : job.metrics) metrics[name] = value;
  }
  if (job.start_time) body["start_time"] = TimeText(*job.start_time);
  return body;
}

// " at step 40 of 100, loss 1.25"
std::string Reached(const jobs::Job& job) {
  if (!job.progress) return "";
  return absl::StrFormat(" at step %d of %d, loss %.4g", job.progress->step,
                         job.progress->total_steps, job.progress->loss);
}

}  // namespace

Sender ThisSender() {
  char name[256] = "";
  // POSIX does not promise a terminator where the name is longer.
  gethostname(name, sizeof(name) - 1);
  return {name, MPSD_VERSION};
}

Notice EndNotice(const Sender& sender, const jobs::EndedJob& end,
                 const jobs::Job& job) {
  Notice notice;
  notice.id = absl::StrCat(end.job_id, "-", end.number);
  notice.event = absl::AsciiStrToLower(std::string(jobs::Name(end.state)));
  notice.time = end.time;
  notice.title = absl::StrCat("mpsd: job ", notice.event);
  notice.text = absl::StrCat(
      "Job ", job.name.empty() ? end.job_id : base::Quotable(job.name), " ",
      notice.event, Reached(job));
  if (job.eval_loss_after && end.state == jobs::State::kSucceeded) {
    absl::StrAppend(&notice.text, absl::StrFormat(", evaluation loss %.4g",
                                                  *job.eval_loss_after));
  }
  if (end.state == jobs::State::kFailed && !end.message.empty()) {
    absl::StrAppend(&notice.text, ": ", end.message);
  }
  return WithBody(std::move(notice), sender, {{"job", JobBody(end, job)}});
}

Notice TestNotice(const Sender& sender, absl::Time time) {
  Notice notice;
  notice.event = "test";
  notice.id = IdOf(notice.event, time);
  notice.time = time;
  notice.title = "mpsd: test";
  notice.text = "This is a test: notifications of mpsd arrive here";
  return WithBody(std::move(notice), sender, ordered_json::object());
}

}  // namespace mpsd::notify
