// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_FRAME_H_
#define MPSD_CLIENT_TOP_FRAME_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace mpsd::client::top {

struct Size {
  int columns = 0;
  int rows = 0;
  bool operator==(const Size&) const = default;
};

// What a piece of text is to a reader. A screen without colours shows it by
// bold, underlined and inverse letters, and no meaning hangs on a look alone.
enum class Look : uint8_t {
  kPlain,
  kStrong,
  kFaint,
  kGood,
  kWarning,
  kBad,
  kCurve,
  kSelected,
  kBar,
};

struct Cell {
  char32_t character = ' ';
  int columns = 1;  // 2 for a wide character, 0 for the cell that it covers
  Look look = Look::kPlain;
};

// The columns that a screen gives to `character`: 1 or 2, and 0 for one that a
// frame does not show, since screens differ over it or it would change what
// stands beside it: controls, combining marks, letters that are written from
// right to left, private and unassigned characters.
int ColumnsOf(char32_t character);

// One picture of the whole screen. Whatever text is put into it, it holds only
// characters of a known width: a control is written out as base::Printable
// does, a combining mark is left out, any other character that ColumnsOf does
// not know becomes '?'; without UTF-8 so does all that is not ASCII.
class Frame {
 public:
  Frame(Size size, bool utf8);

  Size size() const { return size_; }
  bool utf8() const { return utf8_; }
  const Cell& at(int column, int row) const;

  // Writes `text` from a cell on, in at most `most` columns and not beyond the
  // right edge; a text that is cut ends in "…" ('~' without UTF-8). A position
  // outside of the frame shows nothing. Returns the column behind the text.
  int Put(int column, int row, const std::string& text,
          Look look = Look::kPlain, int most = std::numeric_limits<int>::max());
  // Gives the cells of a row a look; what they show stays.
  void Paint(int row, Look look);

  // A row's characters in UTF-8, without spaces at its end.
  std::string Row(int row) const;

 private:
  Size size_;
  bool utf8_;
  std::vector<Cell> cells_;
};

void AppendUtf8(char32_t character, std::string& text);

// `text` in pieces of at most `columns` columns each, at least one piece.
std::vector<std::string> Wrapped(const std::string& text, int columns,
                                 bool utf8);

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_FRAME_H_
