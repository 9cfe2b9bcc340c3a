// SPDX-License-Identifier: Apache-2.0
#include "server/openai/multipart.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/limits.h"

namespace mpsd::openai {
namespace {

constexpr size_t kBoundaryBytes = 70;  // RFC 2046
constexpr int kParts = 16;

absl::Status Fault(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the body is no multipart/form-data: ", what));
}

// The characters that RFC 2046 lets a boundary have.
bool IsBoundary(const std::string& text) {
  return !text.empty() && text.size() <= kBoundaryBytes &&
         !absl::EndsWith(text, " ") &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) ||
                  std::string_view("'()+_,-./:=? ").find(c) !=
                      std::string_view::npos;
         });
}

// A value in quotes at the start of `text`, with what clients escape: a quote
// as `\"` or `%22`.
absl::StatusOr<std::string> Quoted(std::string_view& text) {
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return value;
    }
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("\\\"") || rest.starts_with("\\\\")) {
      value += text[++i];
    } else if (rest.starts_with("%22")) {
      value += '"';
      i += 2;
    } else {
      value += text[i];
    }
  }
  return Fault("a quote is not closed");
}

// The next "; name=value" of a header's line.
absl::StatusOr<std::pair<std::string, std::string>> Parameter(
    std::string_view& text) {
  const auto skip_spaces = [&text] {
    while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) {
      text.remove_prefix(1);
    }
  };
  skip_spaces();
  if (text.empty() || text[0] != ';') return Fault("expected ';'");
  text.remove_prefix(1);
  skip_spaces();
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Fault("expected NAME=VALUE");
  const std::string name =
      absl::AsciiStrToLower(std::string(text.substr(0, equals)));
  text.remove_prefix(equals + 1);
  if (text.starts_with('"')) {
    absl::StatusOr<std::string> value = Quoted(text);
    if (!value.ok()) return value.status();
    return std::make_pair(name, *std::move(value));
  }
  const size_t end = std::min(text.find(';'), text.size());
  const std::string whole(text.substr(0, end));
  const std::string value(absl::StripAsciiWhitespace(whole));
  text.remove_prefix(end);
  return std::make_pair(name, value);
}

// What stands behind "Content-Disposition:".
absl::StatusOr<FormPart> ReadDisposition(std::string_view text) {
  constexpr std::string_view kType = "form-data";
  if (!absl::StartsWithIgnoreCase(absl::string_view(text.data(), text.size()),
                                  "form-data")) {
    return Fault("a part's Content-Disposition is not \"form-data\"");
  }
  text.remove_prefix(kType.size());
  std::optional<std::string> name, filename;
  while (!text.empty()) {
    absl::StatusOr<std::pair<std::string, std::string>> next = Parameter(text);
    if (!next.ok()) return next.status();
    std::optional<std::string>* const known = next->first == "name" ? &name
                                              : next->first == "filename"
                                                  ? &filename
                                                  : nullptr;
    if (known == nullptr) continue;
    if (known->has_value()) return Fault(next->first + " comes twice");
    *known = std::move(next->second);
  }
  if (!name) return Fault("a part has no name");
  return FormPart{*std::move(name), std::move(filename)};
}

absl::StatusOr<FormPart> ReadPartHeader(const std::string& header) {
  const std::vector<std::string> lines = absl::StrSplit(header, "\r\n");
  std::optional<std::string> disposition;
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (!absl::EqualsIgnoreCase(parts.first, "Content-Disposition")) continue;
    if (disposition) return Fault("Content-Disposition comes twice");
    disposition = std::string(absl::StripAsciiWhitespace(parts.second));
  }
  if (!disposition) return Fault("a part has no Content-Disposition");
  return ReadDisposition(*disposition);
}

}  // namespace

absl::StatusOr<std::string> MultipartBoundary(std::string_view content_type) {
  absl::Status fault = absl::InvalidArgumentError(
      "Content-Type: expected multipart/form-data with a boundary");
  constexpr std::string_view kType = "multipart/form-data";
  if (!absl::StartsWithIgnoreCase(
          absl::string_view(content_type.data(), content_type.size()),
          "multipart/form-data")) {
    return fault;
  }
  std::string_view rest = content_type.substr(kType.size());
  std::optional<std::string> boundary;
  while (!rest.empty()) {
    absl::StatusOr<std::pair<std::string, std::string>> next = Parameter(rest);
    if (!next.ok()) return fault;
    if (next->first != "boundary") continue;
    if (boundary) return fault;
    boundary = std::move(next->second);
  }
  if (!boundary || !IsBoundary(*boundary)) return fault;
  return *std::move(boundary);
}

absl::Status MultipartReader::Take(std::string_view bytes) {
  held_.append(bytes);
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = Step();
  return more.status();
}

absl::StatusOr<bool> MultipartReader::Step() {
  switch (state_) {
    case State::kDelimiter:
      return StepDelimiter();
    case State::kHeader:
      return StepHeader();
    case State::kBytes:
      return StepBytes();
    case State::kEpilogue:
      held_.clear();  // what stands there means nothing
      return false;
  }
  return Fault("it cannot be read");
}

// At the delimiter's first byte, or where one has to be.
absl::StatusOr<bool> MultipartReader::StepDelimiter() {
  const size_t known = std::min(held_.size(), delimiter_.size());
  if (held_.compare(0, known, delimiter_, 0, known) != 0) {
    return Fault("expected its boundary");
  }
  if (held_.size() < delimiter_.size() + 2) return false;
  const std::string next = held_.substr(delimiter_.size(), 2);
  if (next != "\r\n" && next != "--") {
    return Fault("something follows its boundary");
  }
  if (std::exchange(in_part_, false)) {
    if (absl::Status ended = sink_.EndPart(); !ended.ok()) return ended;
  }
  // The line break stays for a header without lines, which ends at once.
  held_.erase(0, delimiter_.size() + (next == "--" ? 2 : 0));
  state_ = next == "--" ? State::kEpilogue : State::kHeader;
  return true;
}

absl::StatusOr<bool> MultipartReader::StepHeader() {
  const size_t end = held_.find("\r\n\r\n");
  if (std::min(end, held_.size()) > limits::kHttpHeaderBytes) {
    return Fault("a part's header is too long");
  }
  if (end == std::string::npos) return false;
  if (++parts_ > kParts) {
    return Fault(absl::StrCat("it has more than ", kParts, " parts"));
  }
  const absl::StatusOr<FormPart> part = ReadPartHeader(held_.substr(0, end));
  if (!part.ok()) return part.status();
  held_.erase(0, end + 4);
  state_ = State::kBytes;
  in_part_ = true;
  if (absl::Status begun = sink_.BeginPart(*part); !begun.ok()) return begun;
  return true;
}

absl::StatusOr<bool> MultipartReader::StepBytes() {
  const size_t found = held_.find(delimiter_);
  // The last bytes may be the beginning of the delimiter.
  const size_t kept = delimiter_.size() - 1;
  const size_t ready = found != std::string::npos ? found
                       : held_.size() > kept      ? held_.size() - kept
                                                  : 0;
  if (ready > 0) {
    absl::Status taken =
        sink_.PartBytes(std::string_view(held_).substr(0, ready));
    if (!taken.ok()) return taken;
    held_.erase(0, ready);
  }
  if (found == std::string::npos) return false;
  state_ = State::kDelimiter;
  return true;
}

absl::Status MultipartReader::End() const {
  if (state_ == State::kEpilogue) return absl::OkStatus();
  return Fault("it ends before its last boundary");
}

}  // namespace mpsd::openai
