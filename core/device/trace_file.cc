// SPDX-License-Identifier: Apache-2.0
#include "core/device/trace_file.h"

#define ZLIB_CONST  // deflate does not write to its input
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::profile {
namespace {

namespace fs = std::filesystem;

constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip's frame
constexpr size_t kPiece = 1 << 20;    // bytes at a time

// The stream of one file.
class Deflater {
 public:
  Deflater() {
    base::Check(deflateInit2(&stream_, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow,
                             /*memLevel=*/8, Z_DEFAULT_STRATEGY) == Z_OK,
                "zlib has its memory");
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  absl::Status Append(std::string_view bytes, bool last,
                      base::AtomicFile& file) {
    stream_.next_in = reinterpret_cast<const Bytef*>(bytes.data());
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      std::array<char, kPiece> packed;
      stream_.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream_.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      RETURN_IF_ERROR(
          file.Append({packed.data(), packed.size() - stream_.avail_out}));
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

  int64_t packed_bytes() const {
    return static_cast<int64_t>(stream_.total_out);
  }

 private:
  z_stream stream_{};
};

bool EndsAsJson(std::string_view text) {
  const size_t last = text.find_last_not_of(" \n\r\t");
  return last != std::string_view::npos && text[last] == '}';
}

// The end of the trace, after its events, without the path to which Kineto
// wrote it: a trace is shared, and the path is local to this machine.
struct Ending {
  size_t begin;  // bytes of the trace before it
  std::string text;
};

Ending WithoutPath(std::string_view trace) {
  constexpr std::string_view kName = "\"traceName\":";
  constexpr size_t kLongest = 16 << 10;
  const size_t from = trace.size() - std::min(trace.size(), kLongest);
  const size_t found = trace.substr(from).rfind(kName);
  if (found == std::string_view::npos) return {trace.size(), ""};
  return {from + found, absl::StrCat(std::string(kName), " \"trace\"\n}\n")};
}

absl::StatusOr<int64_t> Pack(const fs::path& json, const fs::path& gzip,
                             int64_t limit) {
  ASSIGN_OR_RETURN(const auto from, base::MappedFile::Open(json));
  const std::string_view text = from->bytes();
  if (text.size() > static_cast<size_t>(limit)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the trace has ", text.size(), " bytes, at most ", limit,
                     " are kept: profile fewer steps, or a smaller batch"));
  }
  if (!EndsAsJson(text)) {
    return absl::InternalError("the trace is incomplete: is the disk full?");
  }
  ASSIGN_OR_RETURN(auto file, base::AtomicFile::Create(gzip));
  Deflater deflater;
  const Ending ending = WithoutPath(text);
  for (size_t at = 0; at < ending.begin; at += kPiece) {
    const size_t size = std::min(kPiece, ending.begin - at);
    RETURN_IF_ERROR(
        deflater.Append(text.substr(at, size), /*last=*/false, *file));
  }
  RETURN_IF_ERROR(deflater.Append(ending.text, /*last=*/true, *file));
  RETURN_IF_ERROR(file->Commit());
  return deflater.packed_bytes();
}

}  // namespace

absl::StatusOr<int64_t> PackTrace(const fs::path& json, const fs::path& gzip,
                                  int64_t limit) {
  absl::StatusOr<int64_t> bytes = Pack(json, gzip, limit);
  std::error_code ignored;
  fs::remove(json, ignored);
  return bytes;
}

}  // namespace mpsd::profile
