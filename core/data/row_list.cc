// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/data/list_builder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using base::Cat;

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
    const Json row = base::ParseTree<Json>(line);
    if (!row.is_object()) {
      return builder_.Fault(
          place, row.is_discarded() ? "not valid JSON" : "expected an object");
    }
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

  std::optional<data::LabelValue> Label(const Json& row,
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

}  // namespace

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

}  // namespace mpsd::image
