// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_RECORDS_H_
#define MPSD_CORE_DATA_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::data {

// A row's text as in the file.
struct Record {
  std::string_view text;
  int64_t line = 0;  // its first line, from 1
};

// Splits a file of JSON rows without parsing the rows: one row a line (JSON
// Lines), or one array of rows, recognised by its opening bracket. The scanner
// reads the bytes once and copies none.
//
//   RecordScanner records(bytes);
//   while (true) {
//     auto record = records.Next();
//     if (!record.ok() || !*record) break;
//     …
//   }
class RecordScanner {
 public:
  // `bytes` must outlive the scanner and its records. Skips a byte order mark.
  explicit RecordScanner(std::string_view bytes);

  // The next row that is not blank, an array's row without surrounding white
  // space; nullopt after the last row. Elements of an array that are not
  // objects are rows too; the row's parser reports them. InvalidArgument
  // "<line>: <fault>" for an array that is malformed around its rows: the
  // scanner cannot continue after the fault.
  absl::StatusOr<std::optional<Record>> Next();

  bool is_array() const { return array_; }
  // The number of bytes read so far.
  size_t position() const { return at_; }

 private:
  absl::StatusOr<std::optional<Record>> NextLine();
  absl::StatusOr<std::optional<Record>> NextElement();
  // The length in bytes of the value at at_; 0 if the value does not end.
  size_t ElementLength() const;
  void SkipSpace();
  void SkipBytes(size_t count);  // advances, counting lines
  absl::Status Fault(int64_t line, std::string_view what) const;

  const std::string_view bytes_;
  size_t at_ = 0;
  int64_t line_ = 1;  // the line of at_
  bool array_ = false;
  bool begun_ = false;  // a row of the array was returned
  bool done_ = false;   // the array ended
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_RECORDS_H_
