#include "engine/serve/session_operations.h"

#include <utility>

#include "kernels/status.h"

namespace recurve {
namespace {

using Lease = SessionStore::Lease;
using Values = CarriedState::Values;

void Acquire(SessionStore& store, const std::string& id,
             const CallControl& control, SessionStore::Ready ready) {
  SessionUse use;
  use.id = id;
  use.control = control;
  store.Acquire(std::move(use), std::move(ready));
}

// With the lease, which is then `done`'s alone, and the state.
void Read(SessionStore& store, const std::string& id,
          const CallControl& control,
          std::function<void(absl::StatusOr<Lease>, Values)> done) {
  Acquire(store, id, control,
          [done = std::move(done)](absl::StatusOr<Lease> lease) {
            if (!lease.ok()) return done(lease.status(), {});
            const CarriedState& state = *(*lease)->state();
            state.Read([done, lease = *std::move(lease)](
                           absl::StatusOr<Values> values) mutable {
              if (!values.ok()) return done(values.status(), {});
              done(std::move(lease), *std::move(values));
            });
          });
}

}  // namespace

void SnapshotSession(
    SessionStore& store, const std::string& id, const CallControl& control,
    std::function<void(absl::StatusOr<SessionSnapshot>)> done) {
  Read(store, id, control,
       [done = std::move(done)](absl::StatusOr<Lease> lease, Values values) {
         if (!lease.ok()) return done(lease.status());
         SessionSnapshot snapshot;
         snapshot.model_version = (*lease)->version()->name;
         snapshot.shape = ShapeSignature(*(*lease)->version()->model);
         snapshot.position = (*lease)->position();
         snapshot.carry = std::move(values);
         lease->reset();
         done(std::move(snapshot));
       });
}

void ForkSession(SessionStore& store, const std::string& id,
                 const std::string& new_id, const CallControl& control,
                 std::function<void(absl::StatusOr<SessionInfo>)> done) {
  Read(store, id, control,
       [&store, new_id, done = std::move(done)](absl::StatusOr<Lease> lease,
                                                Values values) {
         if (!lease.ok()) return done(lease.status());
         const auto info =
             store.Create({new_id, (*lease)->version(), (*lease)->position(),
                           std::move(values)});
         lease->reset();
         done(info);
       });
}

void MoveSession(SessionStore& store, const std::string& id,
                 const ModelHandle& version, const CallControl& control,
                 std::function<void(absl::StatusOr<SessionInfo>)> done) {
  Acquire(store, id, control,
          [&store, id, version,
           done = std::move(done)](absl::StatusOr<Lease> lease) {
            if (!lease.ok()) return done(lease.status());
            const absl::Status fits = CheckShape(
                ShapeSignature(*(*lease)->version()->model), *version);
            if (!fits.ok()) return done(fits);
            (*lease)->Move(version);
            lease->reset();
            done(store.Get(id));
          });
}

absl::StatusOr<SessionInfo> RestoreSession(SessionStore& store,
                                           const std::string& id,
                                           const ModelHandle& version,
                                           SessionSnapshot snapshot,
                                           std::optional<absl::Time> created) {
  RETURN_IF_ERROR(CheckFits(snapshot, *version));
  return store.Create(
      {id, version, snapshot.position, std::move(snapshot.carry), created});
}

}  // namespace recurve
