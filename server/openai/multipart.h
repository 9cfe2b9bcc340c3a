// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_OPENAI_MULTIPART_H_
#define MPSD_SERVER_OPENAI_MULTIPART_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::openai {

// The boundary of a Content-Type "multipart/form-data; boundary=…".
// InvalidArgument for another type and for a boundary that is none.
absl::StatusOr<std::string> MultipartBoundary(std::string_view content_type);

// What a part of a form says of itself.
struct FormPart {
  std::string name;                     // of the field
  std::optional<std::string> filename;  // absent: no file
};

// Gets the parts of a form, one after the other. An error ends the reading.
class FormSink {
 public:
  virtual ~FormSink() = default;
  virtual absl::Status BeginPart(const FormPart& part) = 0;
  virtual absl::Status PartBytes(std::string_view bytes) = 0;
  virtual absl::Status EndPart() = 0;
};

// Reads multipart/form-data (RFC 7578) in pieces of any size; however they are
// cut, the sink gets the same parts. Holds a part's header and less than a
// boundary of its bytes, and no part. Errors are InvalidArgument, or the
// sink's; after one the reader is not used again.
class MultipartReader {
 public:
  // `sink` must outlive the reader.
  MultipartReader(const std::string& boundary, FormSink& sink)
      : delimiter_("\r\n--" + boundary), sink_(sink) {}

  absl::Status Take(std::string_view bytes);
  // All bytes have come.
  absl::Status End() const;

 private:
  enum class State { kDelimiter, kHeader, kBytes, kEpilogue };

  // One step; false where more bytes are needed.
  absl::StatusOr<bool> Step();
  absl::StatusOr<bool> StepDelimiter();
  absl::StatusOr<bool> StepHeader();
  absl::StatusOr<bool> StepBytes();

  const std::string delimiter_;  // with the line break before it
  FormSink& sink_;
  State state_ = State::kDelimiter;
  bool in_part_ = false;
  int parts_ = 0;
  // The body has no line break before its first delimiter.
  std::string held_ = "\r\n";
};

}  // namespace mpsd::openai

#endif  // MPSD_SERVER_OPENAI_MULTIPART_H_
