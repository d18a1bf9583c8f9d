#include "engine/schedule/account_backend.h"

#include <utility>

#include "engine/schedule/ledger_state.h"
#include "kernels/status.h"

namespace recurve {
namespace {

class AccountedBuffer : public DeviceBuffer {
 public:
  AccountedBuffer(std::unique_ptr<DeviceBuffer> buffer, int64_t charged,
                  std::shared_ptr<Ledger::Account> account)
      : buffer_(std::move(buffer)),
        charged_(charged),
        account_(std::move(account)) {}
  ~AccountedBuffer() override {
    buffer_.reset();  // before anyone is told that the memory is there
    account_->Refund(charged_);
  }

  void* data() const override { return buffer_->data(); }
  int64_t bytes() const override { return buffer_->bytes(); }

 private:
  std::unique_ptr<DeviceBuffer> buffer_;
  const int64_t charged_;
  const std::shared_ptr<Ledger::Account> account_;
};

}  // namespace

AccountBackend::AccountBackend(Backend& to,
                               std::shared_ptr<Ledger::Account> account)
    : ForwardingBackend(to), account_(std::move(account)) {}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> AccountBackend::Allocate(
    int64_t bytes) {
  RETURN_IF_ERROR(account_->Charge(bytes));
  auto buffer = ForwardingBackend::Allocate(bytes);
  if (!buffer.ok()) {
    account_->Refund(bytes);
    return buffer.status();
  }
  return std::make_unique<AccountedBuffer>(*std::move(buffer), bytes, account_);
}

}  // namespace recurve
