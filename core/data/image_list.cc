// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_list.h"

#include <utility>

#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/data/decode.h"
#include "core/data/list_builder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;

std::string NameOf(const std::string& place, const fs::path& file) {
  return place == file ? place : base::Cat(place, ": ", file.string());
}

// The part of a status's message after "<name>: ".
std::string FaultIn(const absl::Status& status, const std::string& name) {
  return std::string(status.message()).substr(name.size() + 2);
}

bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

absl::Status ListPath(const fs::path& path, ListBuilder& builder) {
  if (HasRows(path)) return ListRows(path, builder);
  return IsFolder(path) ? ListFolder(path, builder) : ListArrays(path, builder);
}

}  // namespace

void ListBuilder::AddFile(const std::string& place, const fs::path& file,
                          const std::string& hashed_name,
                          data::LabelValue label) {
  auto bytes = base::ReadFile(file);
  if (!bytes.ok()) return Fault(place, std::string(bytes.status().message()));
  auto size = ReadImageSize(*bytes, place);
  if (!size.ok()) {
    std::string fault = FaultIn(size.status(), place);
    return Fault(NameOf(place, file), fault);
  }
  Hash(base::Cat(hashed_name, "\n", base::Sha256Hex(*bytes), "\n"));
  entries_.push_back({.place = place,
                      .file = file,
                      .array = {},
                      .height = size->height,
                      .width = size->width,
                      .label = std::move(label)});
}

void ListBuilder::AddArray(const std::string& place, at::Tensor array,
                           data::LabelValue label) {
  const int64_t height = array.size(0), width = array.size(1);
  entries_.push_back({.place = place,
                      .file = {},
                      .array = std::move(array),
                      .height = height,
                      .width = width,
                      .label = std::move(label)});
}

absl::StatusOr<ImageList> ListBuilder::Finish() {
  if (!errors_.empty()) return errors_.status();
  return ImageList{std::move(entries_), sha256_.FinishHex()};
}

bool HasRows(const fs::path& path) {
  return !IsFolder(path) && path.extension() != ".safetensors";
}

absl::StatusOr<ImageList> ListImages(const std::vector<std::string>& paths,
                                     const ListOptions& options) {
  ListBuilder builder(options);
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(ListPath(path, builder));
    if (builder.full()) break;
    builder.Hash("\n");
  }
  ASSIGN_OR_RETURN(auto list, builder.Finish());
  if (options.max_samples && *options.max_samples < std::ssize(list.entries)) {
    list.entries.resize(*options.max_samples);
  }
  return list;
}

std::vector<data::LabelValue> LabelValues(const ImageList& list) {
  std::vector<data::LabelValue> values;
  for (const Entry& entry : list.entries) values.push_back(entry.label);
  return values;
}

data::LabelPlace PlacesOf(const ImageList& list) {
  return [&list](int64_t index) { return list.entries[index].place; };
}

absl::StatusOr<Image> ReadImage(const Entry& entry) {
  if (entry.array.defined()) {
    const auto* data = entry.array.const_data_ptr<uint8_t>();
    return Image{entry.height,
                 entry.width,
                 entry.array.size(2),
                 {data, data + entry.array.numel()}};
  }
  ASSIGN_OR_RETURN(auto bytes, base::ReadFile(entry.file));
  return DecodeImage(bytes, NameOf(entry.place, entry.file));
}

}  // namespace mpsd::image
