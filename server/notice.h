// Tells those who wait for something that it will not come any more.
#ifndef RECURVE_SERVER_NOTICE_H_
#define RECURVE_SERVER_NOTICE_H_

#include <functional>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace recurve::server {

// Thread-safe.
class Notice {
 public:
  using Wake = std::function<void()>;
  // Destroyed, it waits for a call of its `wake` that is running; before the
  // notice.
  class Listener {
   public:
    Listener(Notice& notice, Wake wake);
    ~Listener();

   private:
    Notice& notice_;
    std::list<Wake>::iterator at_;
  };

  // Calls `wake` when the notice is given, at once if it was: from any thread,
  // once; it must neither block nor give up its Listener.
  std::unique_ptr<Listener> Listen(Wake wake);
  void Give();
  bool given() const;

 private:
  mutable absl::Mutex mutex_;
  bool given_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Wake> wakes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_NOTICE_H_
