// SPDX-License-Identifier: Apache-2.0
#include "server/hub/hub_client.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/limits.h"
#include "core/base/printable.h"

namespace mpsd::hub {
namespace {

constexpr int kMostRedirects = 5;
// Kept of an answer that is no file: what people read of an error.
constexpr size_t kMostErrorBody = 4096;

bool IsSuccess(int status) { return status == 200 || status == 206; }

bool IsRedirect(const fetch::Answer& answer) {
  const int s = answer.status;
  return s == 301 || s == 302 || s == 303 || s == 307 || s == 308;
}

// Where the bytes of an answer begin in the file; -1 where the answer does not
// tell.
int64_t OffsetOf(const fetch::Answer& head) {
  if (head.status == 200) return 0;
  const std::string range = head.Header("content-range");
  absl::string_view rest = range;
  int64_t offset = -1;
  const bool told = absl::ConsumePrefix(&rest, "bytes ") &&
                    absl::SimpleAtoi(rest.substr(0, rest.find('-')), &offset);
  return told ? offset : -1;
}

// The size of the whole file as the answer has it; -1 where it does not tell.
int64_t SizeOf(const fetch::Answer& head) {
  std::string text = head.Header("content-length");
  if (head.status == 206) {
    text = head.Header("content-range");
    const size_t slash = text.find('/');
    text = slash == text.npos ? "" : text.substr(slash + 1);
  }
  int64_t size = -1;
  return absl::SimpleAtoi(text, &size) ? size : -1;
}

// "W/\"abc\"" is "abc".
std::string PlainTag(const std::string& tag) {
  absl::string_view text = tag;
  absl::ConsumePrefix(&text, "W/");
  absl::ConsumePrefix(&text, "\"");
  absl::ConsumeSuffix(&text, "\"");
  return std::string(text);
}

absl::Status Contradiction(const HubFile& file, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the hub tells two ", what, " of ",
                                          base::Quotable(file.path),
                                          ": pull again later"));
}

// What the hub says of the file with a redirect, or with the file itself,
// beside what the listing said.
absl::Status CheckHeaders(const std::string& commit, const HubFile& file,
                          const fetch::Answer& answer) {
  const std::string other_commit = answer.Header("x-repo-commit");
  if (!other_commit.empty() && other_commit != commit) {
    return Contradiction(file, "commits");
  }
  const std::string tag = answer.Header("x-linked-etag");
  if (!tag.empty() && PlainTag(tag) != file.hash) {
    return Contradiction(file, "hashes");
  }
  int64_t size = 0;
  if (absl::SimpleAtoi(answer.Header("x-linked-size"), &size) &&
      size != file.size) {
    return Contradiction(file, "sizes");
  }
  return absl::OkStatus();
}

// With a slash at the end.
std::string Folder(const std::string& url) {
  return absl::StrCat(absl::StripSuffix(url, "/"), "/");
}

}  // namespace

HubClient::HubClient(const Settings& settings, std::string token,
                     fetch::Client::Options options)
    : hub_(fetch::ParseUrl(Folder(settings.url)).value()),
      allow_private_(settings.allow_private),
      token_(std::move(token)),
      client_(std::move(options)) {}

absl::StatusOr<fetch::Answer> HubClient::Ask(const fetch::Url& url,
                                             fetch::Request request,
                                             const fetch::Sink& sink) {
  const bool own = url.SameServer(hub_);
  request.url = url.text;
  request.public_only = !allow_private_ && !own;
  // A file that is compressed on its way has another size.
  request.headers.push_back("Accept-Encoding: identity");
  if (own && !token_.empty()) {
    request.headers.push_back(absl::StrCat("Authorization: Bearer ", token_));
  }
  absl::StatusOr<fetch::Answer> answer = client_.Run(request, sink);
  if (absl::IsPermissionDenied(answer.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the hub redirects to ", base::Quotable(url.host), ": ",
        answer.status().message(), " (mpsd's --hub-allow-private)"));
  }
  return answer;
}

absl::StatusOr<fetch::Url> HubClient::NextHop(
    const fetch::Url& from, const fetch::Answer& answer) const {
  absl::StatusOr<fetch::Url> next =
      fetch::Redirected(from, answer.Header("location"));
  if (!next.ok() || next->has_credentials) {
    return absl::FailedPreconditionError(
        "the hub redirects to what is no address");
  }
  if (hub_.scheme == "https" && next->scheme != "https") {
    return absl::FailedPreconditionError(
        absl::StrCat("the hub redirects to ", base::Quotable(next->host),
                     " in plain text, without TLS"));
  }
  return next;
}

absl::StatusOr<fetch::Answer> HubClient::Follow(const About& about,
                                                const fetch::Request& request,
                                                const Look& look,
                                                const fetch::Sink& sink) {
  asked_wait_ = absl::ZeroDuration();
  absl::StatusOr<fetch::Url> url = fetch::ParseUrl(request.url);
  for (int hops = 0; hops <= kMostRedirects; ++hops) {
    if (!url.ok()) return url.status();
    absl::StatusOr<fetch::Answer> answer = Ask(*url, request, sink);
    if (!answer.ok()) return answer;
    const bool redirected = IsRedirect(*answer);
    if (look && (redirected || IsSuccess(answer->status))) {
      if (absl::Status s = look(*answer); !s.ok()) return s;
    }
    if (!redirected) {
      if (absl::Status s = Judge(about, *url, *answer); !s.ok()) return s;
      return answer;
    }
    url = NextHop(*url, *answer);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the hub redirects more than ", kMostRedirects, " times"));
}

absl::Status HubClient::Judge(const About& about, const fetch::Url& url,
                              const fetch::Answer& answer) {
  const int status = answer.status;
  if (IsSuccess(status)) return absl::OkStatus();
  const bool own = url.SameServer(hub_);
  if (status == 416) return absl::OutOfRangeError("no such bytes");
  const bool later = status == 408 || status == 425 || status == 429 ||
                     status >= 500 || status == 0;
  // A link to another server ends with its signature; the next one is fresh.
  if (later || !own) {
    asked_wait_ = answer.retry_after;
    return absl::UnavailableError(absl::StrCat(
        own ? "the hub" : base::Quotable(url.host),
        status == 429 ? " says that it is asked too often" : " answers",
        " (HTTP ", status, ")"));
  }
  return JudgeRefusal(about, answer);
}

absl::Status HubClient::JudgeRefusal(const About& about,
                                     const fetch::Answer& answer) const {
  const std::string code = answer.Header("x-error-code");
  const std::string message = answer.Header("x-error-message");
  if (code == "GatedRepo") {
    return absl::PermissionDeniedError(absl::StrCat(
        about.id,
        " is gated: ask for access to it on the hub's page, then give "
        "mpsd a token of that account (--hub-token-file)"));
  }
  if (code == "RevisionNotFound") {
    return absl::NotFoundError(absl::StrCat("the hub has no revision ",
                                            about.revision, " of ", about.id));
  }
  if (code == "EntryNotFound") {
    return absl::NotFoundError(
        absl::StrCat("the hub lacks a file of ", about.id));
  }
  if (answer.status == 401 && !token_.empty() && code != "RepoNotFound") {
    return absl::PermissionDeniedError(
        "the hub does not take mpsd's token (--hub-token-file)");
  }
  if (code == "RepoNotFound" || answer.status == 404 || answer.status == 401) {
    return absl::NotFoundError(absl::StrCat(
        "the hub has no model ", about.id,
        token_.empty()
            ? ", or it is private and mpsd has no token for it "
              "(--hub-token-file)"
            : ", or mpsd's token (--hub-token-file) may not see it"));
  }
  if (answer.status == 403) {
    return absl::PermissionDeniedError(
        absl::StrCat("the hub refuses ", about.id, message.empty() ? "" : ": ",
                     base::Quotable(message)));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the hub answers HTTP ", answer.status,
                   message.empty() ? "" : ": ", base::Quotable(message)));
}

absl::StatusOr<Listing> HubClient::Describe(const std::string& id,
                                            const std::string& revision) {
  fetch::Request request;
  request.url = absl::StrCat(hub_.text, "api/models/", id, "/revision/",
                             fetch::Escaped(revision), "?blobs=true");
  request.max_body = limits::kHubAnswerBytes;
  const absl::StatusOr<fetch::Answer> answer =
      Follow({id, revision}, request, {}, {});
  if (!answer.ok()) return answer.status();
  if (answer->cut) {
    return absl::FailedPreconditionError(
        absl::StrCat("the hub's list of files is longer than ",
                     limits::kHubAnswerBytes >> 20, " MiB"));
  }
  return ParseListing(answer->body);
}

absl::Status HubClient::Download(const std::string& id,
                                 const std::string& commit, const HubFile& file,
                                 int64_t offset, Receiver& receiver) {
  fetch::Request request;
  request.url = absl::StrCat(hub_.text, id, "/resolve/", commit, "/");
  for (const absl::string_view part : absl::StrSplit(file.path, '/')) {
    absl::StrAppend(&request.url, request.url.back() == '/' ? "" : "/",
                    fetch::Escaped(std::string(part)));
  }
  request.max_body = kMostErrorBody;
  if (offset > 0) {
    request.headers.push_back(absl::StrCat("Range: bytes=", offset, "-"));
  }
  bool begun = false;
  const auto begin = [&](const fetch::Answer& head) -> absl::Status {
    begun = true;
    const int64_t from = OffsetOf(head), size = SizeOf(head);
    if (from != 0 && from != offset) {
      return absl::UnavailableError("the hub sends other bytes than asked for");
    }
    if (size >= 0 && size != file.size) return Contradiction(file, "sizes");
    return receiver.Begin(from);
  };
  const absl::StatusOr<fetch::Answer> answer = Follow(
      {id, commit}, request,
      [&](const fetch::Answer& head) {
        return CheckHeaders(commit, file, head);
      },
      [&](const fetch::Answer& head, std::string_view bytes) -> absl::Status {
        if (!begun) {
          if (absl::Status s = begin(head); !s.ok()) return s;
        }
        return receiver.Take(bytes);
      });
  if (!answer.ok()) return answer.status();
  return begun ? absl::OkStatus() : begin(*answer);
}

}  // namespace mpsd::hub
