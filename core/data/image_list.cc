// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_list.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/ckpt/safetensors.h"
#include "core/data/decode.h"
#include "core/data/in_order.h"
#include "core/data/language_row.h"
#include "core/data/row_errors.h"
#include "core/text/delimited.h"

namespace mpsd::image {
namespace fs = std::filesystem;

namespace {

using base::Cat;
using tensorfile::SafetensorsFile;
using tensorfile::TensorEntry;

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

// Collects the entries of a list, their faults and their hash. Threads read and
// hash the files; this one takes what they read in the files' order, so that
// nothing depends on the number of threads.
class ListBuilder {
 public:
  explicit ListBuilder(const ListOptions& options) : options_(options) {}

  const ListOptions& options() const { return options_; }

  // Adds an image, decoding only its header; `name` is added to the
  // hash with the file's bytes. A fault names `place`, and the file if its name
  // differs.
  void AddFile(const std::string& place, const fs::path& file,
               const std::string& name, data::LabelValue label) {
    if (files_.full()) TakeFile();
    files_.Push({.name = name,
                 .place = place,
                 .file = file,
                 .array = {},
                 .label = std::move(label)});
  }
  void AddArray(const std::string& place, at::Tensor array,
                data::LabelValue label) {
    const int64_t height = array.size(0), width = array.size(1);
    entries_.push_back({.name = "",
                        .place = place,
                        .file = {},
                        .array = std::move(array),
                        .height = height,
                        .width = width,
                        .label = std::move(label)});
  }
  void Hash(std::string_view bytes) {
    TakeFiles();
    sha256_.Update(bytes);
  }

  void Fault(const std::string& place, const std::string& fault) {
    TakeFiles();
    errors_.Add(place, fault);
  }
  // Takes all files that were added.
  void TakeFiles() {
    while (!files_.empty()) TakeFile();
  }
  // Enough faults were found: reading can stop.
  bool full() const { return errors_.full(); }

  // The builder cannot be used afterwards.
  absl::StatusOr<ImageList> Finish() {
    TakeFiles();
    if (!errors_.empty()) return errors_.status();
    return ImageList{std::move(entries_), sha256_.FinishHex()};
  }

 private:
  struct FileRead {
    Entry entry;
    std::string sha256 = {};
    std::string fault = {};  // "": none
    std::string fault_place = {};
  };

  static FileRead Read(Entry entry) {
    FileRead read{.entry = std::move(entry)};
    const std::string& place = read.entry.place;
    const auto bytes = base::ReadFile(read.entry.file);
    if (!bytes.ok()) {
      read.fault = std::string(bytes.status().message());
      read.fault_place = place;
      return read;
    }
    const auto size = ReadImageSize(*bytes, place);
    if (!size.ok()) {
      read.fault = FaultIn(size.status(), place);
      read.fault_place = NameOf(place, read.entry.file);
      return read;
    }
    read.entry.height = size->height;
    read.entry.width = size->width;
    read.sha256 = base::Sha256Hex(*bytes);
    return read;
  }

  void TakeFile() {
    FileRead read = files_.Take();
    if (!read.fault.empty()) return errors_.Add(read.fault_place, read.fault);
    sha256_.Update(base::Cat(read.entry.name, "\n", read.sha256, "\n"));
    entries_.push_back(std::move(read.entry));
  }

  const ListOptions options_;
  std::vector<Entry> entries_;
  data::RowErrors errors_;
  base::Sha256 sha256_;
  data::InOrder<Entry, FileRead> files_{data::WorkThreads(), Read};
};

std::string Describe(const TensorEntry& entry) {
  const bool known = entry.dtype != at::ScalarType::Undefined;
  return Cat(known ? at::toString(entry.dtype) : entry.dtype_name.c_str(), " [",
             absl::StrJoin(entry.shape, ", "), "]");
}

bool IsChannels(int64_t size) { return size == 1 || size == 3; }

// The fault of the images' shape; "" for [N, H, W], [N, H, W, C] and [N, C, H,
// W].
std::string ImagesFault(const TensorEntry& images) {
  const auto& shape = images.shape;
  const bool fits =
      shape.size() == 3 ||
      (shape.size() == 4 && (IsChannels(shape[3]) || IsChannels(shape[1])));
  if (images.dtype != at::kByte || !fits) {
    return Cat(
        "images: expected uint8 [N, H, W], [N, H, W, C] or [N, C, H, "
        "W] with 1 or 3 channels, found ",
        Describe(images));
  }
  for (const int64_t size : shape) {
    if (size == 0) return Cat("images: no pixels in ", Describe(images));
  }
  return "";
}

// The images as [N, H, W, C].
at::Tensor ChannelsLast(const at::Tensor& images) {
  if (images.dim() == 3) return images.unsqueeze(3);
  return IsChannels(images.size(3)) ? images
                                    : images.permute({0, 2, 3, 1}).contiguous();
}

// The fault of the labels; "" if they fit the images.
std::string LabelsFault(const TensorEntry& labels, int64_t count) {
  if (labels.dtype == at::kLong && labels.shape == std::vector{count}) {
    return "";
  }
  return Cat("labels: expected int64 [", count, "], one for each image, found ",
             Describe(labels));
}

const TensorEntry* Find(const SafetensorsFile& file, const char* name) {
  const auto it = file.entries().find(name);
  return it == file.entries().end() ? nullptr : &it->second;
}

std::string Fault(const SafetensorsFile& file, bool labels_needed) {
  const TensorEntry* images = Find(file, "images");
  const TensorEntry* labels = Find(file, "labels");
  if (images == nullptr) {
    return "no tensor `images`; expected uint8 [N, H, W] or [N, H, W, C]";
  }
  if (std::string fault = ImagesFault(*images); !fault.empty()) return fault;
  if (labels != nullptr) return LabelsFault(*labels, images->shape[0]);
  return labels_needed ? "no tensor `labels`; expected int64 [N]" : "";
}

// These add the images of one path. An error concerns the path as a whole;
// faults of single images go to the builder.

absl::Status ListArrays(const fs::path& path, ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open(path));
  if (std::string fault = Fault(*file, builder.options().labels_needed);
      !fault.empty()) {
    builder.Fault(path.string(), fault);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto hash, base::Sha256File(path));
  builder.Hash(hash);
  ASSIGN_OR_RETURN(auto images, file->Load("images"));
  at::Tensor labels;
  if (Find(*file, "labels") != nullptr) {
    ASSIGN_OR_RETURN(auto loaded, file->Load("labels"));
    labels = std::move(loaded);
  }
  const at::Tensor pixels = ChannelsLast(images);
  for (int64_t i = 0; i < pixels.size(0); ++i) {
    data::LabelValue label;
    if (labels.defined()) {
      label = {data::LabelValue::Kind::kInteger,
               std::to_string(labels.const_data_ptr<int64_t>()[i])};
    }
    builder.AddArray(Cat(path.string(), "[", i, "]"), pixels[i],
                     std::move(label));
  }
  return absl::OkStatus();
}

class RowReader {
 public:
  RowReader(const fs::path& file, ListBuilder& builder)
      : file_(file), builder_(builder), options_(builder.options()) {}

  void Read(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    for (int64_t line = 1; !text.empty() && !Enough(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      ReadLine(text.substr(0, end), Cat(file_.string(), ":", line));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  int64_t rows() const { return rows_; }

 private:
  bool Enough() const {
    return builder_.full() ||
           (options_.max_samples && rows_ == *options_.max_samples);
  }

  void ReadLine(std::string_view line, const std::string& place) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    ++rows_;
    const auto parsed = data::ParseRowObject(line);
    if (!parsed.ok()) {
      return builder_.Fault(place, std::string(parsed.status().message()));
    }
    const data::RowJson& row = *parsed;
    const std::string& column =
        options_.image_column.empty() ? "image" : options_.image_column;
    const auto image = row.find(column);
    if (image == row.end() || !image->is_string()) {
      return builder_.Fault(
          place, Cat(column, ": expected the path of an image, found ",
                     image == row.end() ? "nothing" : image->dump()));
    }
    const std::string path = image->get<std::string>();
    auto label = Label(row, place);
    if (!label) return;
    builder_.AddFile(place, file_.parent_path() / path, path,
                     std::move(*label));
  }

  std::optional<data::LabelValue> Label(const data::RowJson& row,
                                        const std::string& place) {
    const std::string& column =
        options_.label_column.empty() ? "label" : options_.label_column;
    const auto label = row.find(column);
    if (label != row.end() && !label->is_null()) {
      return data::LabelFromJson(*label);
    }
    if (!options_.labels_needed) return data::LabelValue{};
    builder_.Fault(place, Cat(column, ": missing"));
    return std::nullopt;
  }

  const fs::path& file_;
  ListBuilder& builder_;
  const ListOptions& options_;
  int64_t rows_ = 0;
};

absl::Status ListRows(const fs::path& file, ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(file));
  builder.Hash(base::Sha256Hex(text));
  RowReader reader(file, builder);
  reader.Read(text);
  if (reader.rows() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(file.string(),
          ": no rows; expected JSON Lines such as "
          "{\"image\": \"a/b.png\", \"label\": \"cat\"}"));
}

// Whether a file is nothing of the user's: hidden, Windows' thumbnails, or what
// a Mac's archives add.
bool Hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".") || name == "Thumbs.db" ||
         name == "desktop.ini" || name == "__MACOSX";
}

absl::Status FolderError(const fs::path& folder, const std::error_code& error) {
  return absl::InvalidArgumentError(
      Cat(folder.string(), ": cannot be listed: ", error.message()));
}

// The contents of `folder` in the order of their names, without hidden ones.
absl::StatusOr<std::vector<fs::path>> Contents(const fs::path& folder) {
  // A link out of the folders that jobs may read would reveal the names there.
  RETURN_IF_ERROR(base::CheckMayRead(folder));
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!Hidden(it->path())) paths.push_back(it->path());
  }
  if (error) return FolderError(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool IsImage(const fs::path& file) {
  auto mapped = base::MappedFile::Open(file);
  return mapped.ok() &&
         (IsPng((*mapped)->bytes()) || IsJpeg((*mapped)->bytes()) ||
          IsWebp((*mapped)->bytes()));
}

// Whether a file in a class folder is no image by its name, as a list of
// sources; such a file is left out, as by Hugging Face's `datasets`.
bool IsOther(const fs::path& path) {
  static const auto* const kImages = new std::set<std::string>{
      "",      ".png",  ".jpg", ".jpeg", ".jpe", ".jfif", ".webp",
      ".gif",  ".apng", ".bmp", ".dib",  ".tif", ".tiff", ".heic",
      ".heif", ".avif", ".jp2", ".ico",  ".svg", ".psd",  ".raw"};
  const std::string extension =
      absl::AsciiStrToLower(path.extension().string());
  return !kImages->contains(extension) && !IsImage(path);
}

// Every file in `folder` and below it that may be an image.
absl::Status AppendFiles(const fs::path& folder, int depth,
                         std::vector<fs::path>& files) {
  constexpr int kMaxDepth = 32;  // a link may lead back up
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        Cat(folder.string(), ": more than ", kMaxDepth, " folders deep"));
  }
  ASSIGN_OR_RETURN(auto paths, Contents(folder));
  for (const fs::path& path : paths) {
    std::error_code error;
    base::CountWork();
    if (!fs::is_directory(path, error)) {
      if (!IsOther(path)) files.push_back(path);
    } else if (auto status = AppendFiles(path, depth + 1, files);
               !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// The parts of a data set, as Hugging Face's `datasets` knows them.
bool IsSplit(const data::LabelValue& name) {
  constexpr const char* kSplits[] = {"train", "training",   "val",
                                     "valid", "validation", "dev",
                                     "test",  "testing",    "eval"};
  const std::string lower = absl::AsciiStrToLower(name.text);
  return std::find(std::begin(kSplits), std::end(kSplits), lower) !=
         std::end(kSplits);
}

struct FolderImages {
  std::vector<fs::path> loose;                  // images without a class
  std::vector<std::vector<fs::path>> by_class;  // in `names`' order
  std::vector<data::LabelValue> names;
};

absl::StatusOr<FolderImages> Find(const fs::path& folder,
                                  ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto paths, Contents(folder));
  FolderImages found;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (IsImage(path)) found.loose.push_back(path);
      continue;
    }
    std::vector<fs::path> files;
    auto status = AppendFiles(path, 0, files);
    if (!status.ok()) return status;
    if (files.empty()) builder.Fault(path, "a class folder without images");
    found.by_class.push_back(std::move(files));
    // A name, even if it looks like a number or a list.
    found.names.push_back(
        {data::LabelValue::Kind::kWord, text::Nfc(path.filename().string())});
  }
  const auto part =
      std::find_if(found.names.begin(), found.names.end(), IsSplit);
  const auto parts = std::count_if(part, found.names.end(), IsSplit);
  // One among others may be a class: a "train" among vehicles.
  if (builder.options().labels_needed && parts > 0 &&
      (parts > 1 || parts == std::ssize(found.names))) {
    return absl::InvalidArgumentError(
        Cat(folder.string(), ": ", part->text,
            " is a part of a data set, not a class; set dataset.train to its "
            "folder of training images, ",
            (folder / "train").string(),
            ", and dataset.eval to the other part's; if it is a class, list "
            "the images in JSON Lines with \"image\" and \"label\""));
  }
  return found;
}

// Keeps the first files of every class, `count` files in total. The classes'
// counts differ by at most one, unless a class has fewer files.
void KeepFirst(int64_t count, std::vector<std::vector<fs::path>>& by_class) {
  std::vector<size_t> kept(by_class.size());
  bool more = true;
  while (count > 0 && more) {
    more = false;
    for (size_t i = 0; i < kept.size() && count > 0; ++i) {
      if (kept[i] == by_class[i].size()) continue;
      ++kept[i];
      --count;
      more = true;
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) by_class[i].resize(kept[i]);
}

absl::Status ListFolder(const fs::path& folder, ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto found, Find(folder, builder));
  const ListOptions& options = builder.options();
  if (options.labels_needed && !found.loose.empty()) {
    builder.Fault(
        found.loose[0].string(),
        Cat("an image outside the class folders of ", folder.string()));
  }
  if (options.max_samples) KeepFirst(*options.max_samples, found.by_class);
  const auto add = [&](const fs::path& file, data::LabelValue label) {
    if (builder.full()) return;
    builder.AddFile(file.string(), file,
                    file.lexically_relative(folder).generic_string(),
                    std::move(label));
  };
  for (const fs::path& file : found.loose) add(file, {});
  for (size_t i = 0; i < found.by_class.size(); ++i) {
    for (const fs::path& file : found.by_class[i]) add(file, found.names[i]);
  }
  if (!found.loose.empty() || !found.names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(folder.string(),
          ": no images; expected a folder with a folder for each class"));
}

absl::Status ListPath(const fs::path& path, ListBuilder& builder) {
  if (HasRows(path)) return ListRows(path, builder);
  return IsFolder(path) ? ListFolder(path, builder) : ListArrays(path, builder);
}

}  // namespace

bool HasRows(const fs::path& path) {
  return !IsFolder(path) && path.extension() != ".safetensors";
}

absl::StatusOr<ImageList> ListImages(const std::vector<std::string>& paths,
                                     const ListOptions& options) {
  ListBuilder builder(options);
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(ListPath(path, builder));
    builder.TakeFiles();
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
