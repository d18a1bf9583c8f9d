// A device's backend as one owner of memory uses it.
#ifndef RECURVE_ENGINE_SCHEDULE_ACCOUNT_BACKEND_H_
#define RECURVE_ENGINE_SCHEDULE_ACCOUNT_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/schedule/ledger.h"
#include "kernels/forwarding_backend.h"

namespace recurve {

// Belongs to the device's thread; its buffers may be freed after it, and after
// the reservation and the ledger have gone.
class AccountBackend : public ForwardingBackend {
 public:
  // `to` outlives this backend, and its memory all buffers.
  AccountBackend(Backend& to, std::shared_ptr<Ledger::Account> account);

  // What is allocated counts as used by the account's owner. Internal, "plan
  // exceeded", if more would be in use than is reserved: the plan is wrong.
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override;

 private:
  const std::shared_ptr<Ledger::Account> account_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_ACCOUNT_BACKEND_H_
