// SPDX-License-Identifier: Apache-2.0
#include "server/notify/webhook_door.h"

#include <curl/curl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/printable.h"
#include "server/notify/signature.h"

namespace mpsd::notify {
namespace {

constexpr absl::Duration kLongestWait = absl::Hours(1);

// curl_global_init is not thread-safe in every build of libcurl, and nobody
// else of mpsd calls it.
void InitialiseOnce() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  base::Check(code == CURLE_OK, "libcurl starts");
}

long Milliseconds(absl::Duration duration) {
  return static_cast<long>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

struct WebhookDoor::Transfer {
  Transfer() { error[0] = '\0'; }
  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void AddHeader(const std::string& line) {
    headers = curl_slist_append(headers, line.c_str());
  }
  // Keeps the beginning of the answer, and ends the transfer once the answer is
  // longer.
  static size_t Take(char* bytes, size_t, size_t count, void* self) {
    std::string& answer = static_cast<Transfer*>(self)->answer;
    const size_t taken = std::min(count, kMostAnswer - answer.size());
    answer.append(bytes, taken);
    return taken;
  }

  CURL* const easy = curl_easy_init();
  curl_slist* headers = nullptr;
  char error[CURL_ERROR_SIZE];
  std::string answer;
  CURLcode code = CURLE_OK;
};

WebhookDoor::WebhookDoor(Options options, const base::Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      multi_((InitialiseOnce(), curl_multi_init())) {
  base::Check(multi_ != nullptr, "libcurl makes a multi handle");
}

WebhookDoor::~WebhookDoor() { curl_multi_cleanup(multi_); }

void WebhookDoor::Interrupt() {
  interrupted_ = true;
  curl_multi_wakeup(multi_);
}

void WebhookDoor::Prepare(Transfer& t, const Notice& notice) const {
  t.AddHeader("Content-Type: application/json");
  t.AddHeader("Expect:");  // not to wait for "100 Continue"
  t.AddHeader(absl::StrCat("Mpsd-Id: ", notice.id));
  t.AddHeader(absl::StrCat("Mpsd-Event: ", notice.event));
  if (!options_.secret.empty()) {
    t.AddHeader(
        absl::StrCat("Mpsd-Signature: ",
                     SignatureOf(options_.secret, clock_.Now(), notice.body)));
  }
  CURL* easy = t.easy;
  curl_easy_setopt(easy, CURLOPT_URL, options_.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                   static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "mpsd/" MPSD_VERSION);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t.headers);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                   static_cast<curl_off_t>(notice.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, notice.body.c_str());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::Take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &t);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t.error);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, Milliseconds(options_.timeout));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   Milliseconds(options_.connect_timeout));
  // Without this, libcurl waits at the end for a thread that looks up a name of
  // a name server that is silent.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  if (!options_.ca_file.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, options_.ca_file.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);
  }
}

bool WebhookDoor::Run(Transfer& transfer) {
  curl_multi_add_handle(multi_, transfer.easy);
  bool finished = false;
  while (!finished && !interrupted_) {
    int running = 0, left = 0;
    CURLMcode code = curl_multi_perform(multi_, &running);
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      transfer.code = message->data.result;
      finished = true;
    }
    if (finished) break;
    if (code == CURLM_OK) {
      code = curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
    }
    if (code != CURLM_OK) {
      transfer.code = CURLE_OUT_OF_MEMORY;
      finished = true;
    }
  }
  curl_multi_remove_handle(multi_, transfer.easy);
  return finished;
}

Delivery WebhookDoor::Judge(Transfer& t) {
  long status = 0;
  curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &status);
  // An answer that is cut for its length has its status nonetheless.
  const bool answered = t.code == CURLE_OK || t.code == CURLE_WRITE_ERROR;
  if (!answered || status == 0) {
    return Delivery::Later(base::Quotable(
        t.error[0] != '\0' ? t.error : curl_easy_strerror(t.code)));
  }
  if (status >= 200 && status < 300) return Delivery::Sent();
  std::string why = absl::StrCat("HTTP ", status);
  if (status >= 300 && status < 400) {
    absl::StrAppend(&why, ": redirects are not followed, give the URL itself");
  } else if (!t.answer.empty()) {
    absl::StrAppend(&why, ": ", base::Quotable(t.answer));
  }
  if (status != 408 && status != 429 && status < 500) {
    return Delivery::Refused(std::move(why));
  }
  Delivery later = Delivery::Later(std::move(why));
  curl_off_t seconds = 0;
  curl_easy_getinfo(t.easy, CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) {
    later.wait = std::min(absl::Seconds(seconds), kLongestWait);
  }
  return later;
}

Delivery WebhookDoor::Deliver(const Notice& notice) {
  Transfer transfer;
  base::Check(transfer.easy != nullptr, "libcurl makes a handle");
  Prepare(transfer, notice);
  if (!Run(transfer)) return Delivery::Later("mpsd stops");
  return Judge(transfer);
}

}  // namespace mpsd::notify
