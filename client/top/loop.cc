// SPDX-License-Identifier: Apache-2.0
#include "client/top/loop.h"

#include <algorithm>
#include <optional>
#include <string>

#include "client/top/view.h"

namespace mpsd::client::top {
namespace {

constexpr absl::Duration kBetweenFrames = absl::Milliseconds(100);
constexpr absl::Duration kClockTick = absl::Seconds(1);

class Looping {
 public:
  Looping(Model& model, Screen& screen, Source& source,
          const base::Clock& clock, absl::TimeZone zone)
      : model_(model),
        screen_(screen),
        source_(source),
        clock_(clock),
        zone_(zone) {}

  Ending Run() {
    while (true) {
      Update();
      const absl::Duration now = clock_.Monotonic();
      if (now >= due_) Draw(now);
      const std::optional<Key> key =
          screen_.Wait(std::max(due_ - now, absl::ZeroDuration()));
      if (!key) continue;
      if (key->kind == Key::kSignal) return {Ending::kSignal, key->signal};
      const Model::Wish wish = model_.Press(*key);
      due_ = absl::ZeroDuration();
      switch (wish.kind) {
        case Model::Wish::kQuit:
          return {Ending::kQuit, 0};
        case Model::Wish::kInterrupt:
          return {Ending::kInterrupt, 0};
        case Model::Wish::kSuspend:
          screen_.Suspend();
          break;
        case Model::Wish::kRedraw:
          screen_.Redraw();
          break;
        case Model::Wish::kAnswer:
          // A text that was pasted by mistake must not say yes.
          screen_.Flush();
          break;
        case Model::Wish::kCancel:
          source_.Cancel(wish.id);
          break;
        case Model::Wish::kNone:
          break;
      }
    }
  }

 private:
  // Takes what has come, and asks for what is shown now.
  void Update() {
    const std::vector<top::Update> updates = source_.Take();
    for (const top::Update& update : updates) model_.Apply(update);
    if (!updates.empty()) due_ = std::min(due_, drawn_ + kBetweenFrames);
    if (const std::string id = model_.shown_id(); id != shown_id_) {
      shown_id_ = id;
      source_.ShowJob(id);
    }
    if (const std::string id = model_.log_id(); id != log_id_) {
      log_id_ = id;
      source_.ShowLog(id);
    }
  }

  void Draw(absl::Duration now) {
    const Viewer viewer = {screen_.size(), screen_.utf8(), clock_.Now(), zone_};
    model_.set_page(PageOf(model_, viewer));
    screen_.Show(Render(model_, viewer));
    drawn_ = now;
    due_ = now + kClockTick;
  }

  Model& model_;
  Screen& screen_;
  Source& source_;
  const base::Clock& clock_;
  const absl::TimeZone zone_;
  std::string shown_id_;
  std::string log_id_;
  // By the monotonic clock, which is not below zero.
  absl::Duration drawn_;
  absl::Duration due_;  // when the next frame is
};

}  // namespace

Ending Loop(Model& model, Screen& screen, Source& source,
            const base::Clock& clock, absl::TimeZone zone) {
  return Looping(model, screen, source, clock, zone).Run();
}

}  // namespace mpsd::client::top
