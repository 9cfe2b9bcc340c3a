// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_LIST_BUILDER_H_
#define MPSD_CORE_DATA_LIST_BUILDER_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/sha256.h"
#include "core/data/row_errors.h"
#include "core/data/image_list.h"

namespace mpsd::image {

// Collects the entries of a list, their faults and their hash.
class ListBuilder {
 public:
  explicit ListBuilder(const ListOptions& options) : options_(options) {}

  const ListOptions& options() const { return options_; }

  // Adds a PNG or JPEG, decoding only its header; `hashed_name` is added to the
  // hash with the file's bytes. A fault names `place`, and the file if its name
  // differs.
  void AddFile(const std::string& place, const std::filesystem::path& file,
               const std::string& hashed_name, data::LabelValue label);
  void AddArray(const std::string& place, at::Tensor array,
                data::LabelValue label);
  void Hash(std::string_view bytes) { sha256_.Update(bytes); }

  void Fault(const std::string& place, const std::string& fault) {
    errors_.Add(place, fault);
  }
  // Enough faults were found: reading can stop.
  bool full() const { return errors_.full(); }
  size_t size() const { return entries_.size(); }

  // The builder cannot be used afterwards.
  absl::StatusOr<ImageList> Finish();

 private:
  const ListOptions options_;
  std::vector<Entry> entries_;
  data::RowErrors errors_;
  base::Sha256 sha256_;
};

// Each adds the images of one path. An error concerns the path as a whole;
// faults of single images go to the builder.
absl::Status ListFolder(const std::filesystem::path& folder,
                        ListBuilder& builder);
absl::Status ListRows(const std::filesystem::path& file, ListBuilder& builder);
absl::Status ListArrays(const std::filesystem::path& file,
                        ListBuilder& builder);

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_LIST_BUILDER_H_
