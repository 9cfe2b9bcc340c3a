// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_SCREEN_H_
#define MPSD_CLIENT_TOP_SCREEN_H_

#include <optional>

#include "absl/time/time.h"
#include "client/top/frame.h"

namespace mpsd::client::top {

struct Key {
  enum Kind {
    kCharacter,
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kEnter,
    kEscape,
    kBackspace,
    kInterrupt,  // Ctrl-C, as a key or a signal
    kSuspend,    // Ctrl-Z, as a key or a signal
    kRedraw,     // Ctrl-L
    kResize,     // no key: the screen has another size, or was away
    kSignal,     // no key: a signal that ends the process
  };
  Kind kind = kCharacter;
  char32_t character = 0;  // of kCharacter
  int signal = 0;          // of kSignal
};

// A terminal to draw on. Used by one thread, but for Wake.
class Screen {
 public:
  virtual ~Screen() = default;

  virtual Size size() = 0;
  virtual bool utf8() const = 0;
  // Shows a frame, of whatever size; what does not fit is left out.
  virtual void Show(const Frame& frame) = 0;
  // Forgets what the terminal shows, so that the next frame is drawn whole.
  virtual void Redraw() = 0;
  // The next key; nothing after `timeout` or Wake.
  virtual std::optional<Key> Wait(absl::Duration timeout) = 0;
  // Forgets the keys that were typed and not waited for.
  virtual void Flush() = 0;
  // Ends a Wait that is under way, or the next one. Any thread may call it.
  virtual void Wake() = 0;
  // Stops the process as Ctrl-Z does, with the terminal as it was before the
  // screen; returns when it goes on, with everything to be drawn anew.
  virtual void Suspend() = 0;
};

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_SCREEN_H_
