// SPDX-License-Identifier: Apache-2.0
#include "client/top/frame.h"

#include <algorithm>
#include <string_view>

#include "client/text/format.h"
#include "core/base/check.h"
#include "core/base/utf8.h"

namespace mpsd::client::top {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Letters and signs that every terminal draws in one column: a part of
// Unicode's blocks, so that a character of tomorrow is not guessed at.
constexpr Range kNarrow[] = {
    {0x20, 0x7E},      {0xA1, 0xAC},     {0xAE, 0x2FF},    {0x370, 0x377},
    {0x37A, 0x37F},    {0x384, 0x482},   {0x48A, 0x52F},   {0x531, 0x556},
    {0x559, 0x58A},    {0x1E00, 0x1FFE}, {0x2010, 0x2027}, {0x2030, 0x205E},
    {0x20A0, 0x20BF},  {0x2100, 0x214F}, {0x2150, 0x2319}, {0x231C, 0x2328},
    {0x232B, 0x23E8},  {0x2500, 0x25FC}, {0x25FF, 0x2613}, {0x2616, 0x2647},
    {0x2654, 0x267E},  {0x2701, 0x2704}, {0x2706, 0x2709}, {0x270C, 0x2727},
    {0x2729, 0x274B},  {0x2756, 0x2756}, {0x2758, 0x2794}, {0x2798, 0x27AF},
    {0x27C0, 0x2B1A},  {0x2C60, 0x2C7F}, {0xA720, 0xA7CA}, {0xFB00, 0xFB06},
    {0x1D400, 0x1D7FF}};

// Those that every terminal draws in two.
constexpr Range kWide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x2E99},   {0x2F00, 0x2FD5},
    {0x3000, 0x3029},   {0x3030, 0x303E},   {0x3041, 0x3096},
    {0x309B, 0x30FF},   {0x3105, 0x312F},   {0x3131, 0x318E},
    {0x3200, 0x321E},   {0x3220, 0x3247},   {0x3250, 0x4DBF},
    {0x4E00, 0x9FFF},   {0xA000, 0xA48C},   {0xAC00, 0xD7A3},
    {0xF900, 0xFA6D},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x1F300, 0x1F320}, {0x1F330, 0x1F335}, {0x1F337, 0x1F37C},
    {0x1F380, 0x1F393}, {0x1F400, 0x1F43E}, {0x1F442, 0x1F4FC},
    {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5}, {0x20000, 0x2A6DF}};

// Marks that stand over the letter before them, and joiners; a name reads on
// without them.
constexpr Range kMarks[] = {
    {0xAD, 0xAD},     {0x300, 0x36F},     {0x483, 0x489},    {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF}, {0x200B, 0x200D},   {0x2060, 0x2060},  {0x20D0, 0x20FF},
    {0x302A, 0x302F}, {0x3099, 0x309A},   {0xFE00, 0xFE0F},  {0xFE20, 0xFE2F},
    {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF}, {0xE0000, 0xE0FFF}};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], char32_t character) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const Range& r) {
    return r.first <= character && character <= r.last;
  });
}

char32_t Decoded(std::string_view bytes) {
  const size_t length = bytes.size();
  if (length == 1) return static_cast<unsigned char>(bytes[0]);
  char32_t code = static_cast<unsigned char>(bytes[0]) & (0x7F >> length);
  for (const char byte : bytes.substr(1)) {
    code = code << 6 | (static_cast<unsigned char>(byte) & 0x3F);
  }
  return code;
}

// What a frame shows of `text`, character by character.
std::vector<Cell> Shown(const std::string& text, bool utf8) {
  const std::string clean = Printable(text);
  std::vector<Cell> cells;
  for (std::string_view rest = clean; !rest.empty();) {
    // Printable leaves nothing but whole characters.
    const size_t length = std::max<size_t>(base::CharacterLength(rest), 1);
    const char32_t character = Decoded(rest.substr(0, length));
    rest.remove_prefix(length);
    if (IsIn(kMarks, character)) continue;
    const int columns = ColumnsOf(character);
    if (columns == 0 || (!utf8 && character > 0x7E)) {
      cells.push_back({U'?', 1});
    } else {
      cells.push_back({character, columns});
    }
  }
  return cells;
}

}  // namespace

int ColumnsOf(char32_t character) {
  if (IsIn(kNarrow, character)) return 1;
  return IsIn(kWide, character) ? 2 : 0;
}

void AppendUtf8(char32_t code, std::string& text) {
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80 | (code >> shift & 0x3F));
  };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

Frame::Frame(Size size, bool utf8) : size_(size), utf8_(utf8) {
  base::Check(size.columns >= 0 && size.rows >= 0, "a frame has a size");
  cells_.resize(static_cast<size_t>(size.columns) * size.rows);
}

const Cell& Frame::at(int column, int row) const {
  base::Check(
      column >= 0 && column < size_.columns && row >= 0 && row < size_.rows,
      "a cell lies within the frame");
  return cells_[static_cast<size_t>(row) * size_.columns + column];
}

int Frame::Put(int column, int row, const std::string& text, Look look,
               int most) {
  if (row < 0 || row >= size_.rows || column < 0) return column;
  const int room = std::min(most, size_.columns - column);
  const std::vector<Cell> shown = Shown(text, utf8_);
  int width = 0;
  for (const Cell& cell : shown) width += cell.columns;
  const bool cut = width > room;
  const int end = column + (cut ? room - 1 : width);
  Cell* const cells = &cells_[static_cast<size_t>(row) * size_.columns];
  const auto set = [&](const Cell& cell) {
    // Half of a wide character shows nothing.
    if (cells[column].columns == 0) cells[column - 1] = {' ', 1, look};
    const int behind = column + cell.columns;
    if (behind < size_.columns && cells[behind].columns == 0) {
      cells[behind] = {' ', 1, look};
    }
    cells[column] = {cell.character, cell.columns, look};
    if (cell.columns == 2) cells[column + 1] = {' ', 0, look};
    column = behind;
  };
  for (const Cell& cell : shown) {
    if (column + cell.columns > end) break;
    set(cell);
  }
  if (cut && room > 0) set({utf8_ ? U'…' : U'~', 1});
  return column;
}

void Frame::Paint(int row, Look look) {
  for (int column = 0; column < size_.columns; ++column) {
    cells_[static_cast<size_t>(row) * size_.columns + column].look = look;
  }
}

std::string Frame::Row(int row) const {
  std::string text;
  for (int column = 0; column < size_.columns; ++column) {
    const Cell& cell = at(column, row);
    if (cell.columns > 0) AppendUtf8(cell.character, text);
  }
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::vector<std::string> Wrapped(const std::string& text, int columns,
                                 bool utf8) {
  std::vector<std::string> pieces(1);
  int width = 0;
  for (const Cell& cell : Shown(text, utf8)) {
    if (width + cell.columns > columns && width > 0) {
      pieces.emplace_back();
      width = 0;
    }
    AppendUtf8(cell.character, pieces.back());
    width += cell.columns;
  }
  return pieces;
}

}  // namespace mpsd::client::top
