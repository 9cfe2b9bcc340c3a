// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_RECORDS_H_
#define MPSD_CORE_DATA_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::data {

// A row's text as it stands in a file.
struct Record {
  std::string_view text;
  int64_t line = 0;  // where it begins, from 1
};

// Takes a file of JSON rows apart without parsing them: a row a line (JSON
// Lines), or one array of rows, which is known by its opening bracket. It goes
// through the bytes once and holds none of them.
//
//   RecordScanner records(bytes);
//   while (true) {
//     auto record = records.Next();
//     if (!record.ok() || !*record) break;
//     …
//   }
class RecordScanner {
 public:
  // `bytes` must outlive the scanner and its records. A byte order mark is
  // passed over.
  explicit RecordScanner(std::string_view bytes);

  // The next row that is not blank, of an array without the white space around
  // it; nothing behind the last. Elements of an array that are no objects are
  // rows too: whoever parses them says so. InvalidArgument "<line>: <fault>"
  // for an array that is not well-formed around its rows: there is nothing to
  // be had behind that.
  absl::StatusOr<std::optional<Record>> Next();

  bool is_array() const { return array_; }
  // Bytes that were gone through.
  size_t position() const { return at_; }

 private:
  absl::StatusOr<std::optional<Record>> NextLine();
  absl::StatusOr<std::optional<Record>> NextElement();
  // Bytes of the value at at_, 0 if it does not end.
  size_t ElementLength() const;
  void SkipSpace();
  void Pass(size_t count);  // moves on, counting lines
  absl::Status Fault(int64_t line, std::string_view what) const;

  const std::string_view bytes_;
  size_t at_ = 0;
  int64_t line_ = 1;  // of at_
  bool array_ = false;
  bool begun_ = false;  // a row of the array was given
  bool done_ = false;   // the array ended
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_RECORDS_H_
