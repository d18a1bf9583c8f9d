#include "server/notice.h"

#include <utility>

namespace recurve::server {

Notice::Listener::Listener(Notice& notice, Wake wake) : notice_(notice) {
  absl::MutexLock lock(&notice_.mutex_);
  at_ = notice_.wakes_.insert(notice_.wakes_.end(), std::move(wake));
  if (notice_.given_) (*at_)();
}

Notice::Listener::~Listener() {
  absl::MutexLock lock(&notice_.mutex_);
  notice_.wakes_.erase(at_);
}

std::unique_ptr<Notice::Listener> Notice::Listen(Wake wake) {
  return std::make_unique<Listener>(*this, std::move(wake));
}

void Notice::Give() {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(given_, true)) return;
  for (const Wake& wake : wakes_) wake();
}

bool Notice::given() const {
  absl::MutexLock lock(&mutex_);
  return given_;
}

}  // namespace recurve::server
