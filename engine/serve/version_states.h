// Which versions take requests, and who still uses them.
//
//   on demand --Load--> loaded        Unload: from either to draining, and when
//                                     nobody uses the version any more, to
//                                     unloaded; Load takes it back from both.
//
// Not remembered over a restart: every version is then on demand.
//
// A version is served at one precision at a time: on demand at the default,
// else as it was loaded. Who began to use it at another goes on with that.
#ifndef RECURVE_ENGINE_SERVE_VERSION_STATES_H_
#define RECURVE_ENGINE_SERVE_VERSION_STATES_H_

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serve/model_version.h"
#include "engine/serve/registry.h"
#include "kernels/precision.h"

namespace recurve {

enum class VersionState {
  kOnDemand,  // the next request loads it, or it is loaded and may be evicted
  kLoaded,    // kept on devices
  kDraining,  // takes no new requests, those there are go on
  kUnloaded,
};

// Thread-safe.
class VersionStates {
 public:
  struct Hooks {
    // Makes the version ready on devices, at its precision, to stay; waits for
    // it. An error changes nothing.
    std::function<absl::Status(const ModelHandle&)> load;
    // Frees what devices keep of it at its precision, once nobody runs it.
    std::function<void(const ModelVersion&)> free;
    // ResourceExhausted, with the numbers, if no device could ever hold it.
    std::function<absl::Status(const ModelVersion&)> check_fits;
    // Runs it soon, on a thread that may wait. Called with who knows what locks
    // held.
    std::function<void(std::function<void()>)> later;
  };

  // `registry`, and what the hooks need, outlive the object; handles may live
  // longer.
  VersionStates(const Registry& registry, Hooks hooks,
                Precision default_precision = Precision::kFloat32);
  ~VersionStates();

  // For a request or a session that begins, and as long as it keeps the handle:
  // it and its copies are the use of the version that an Unload waits for. At
  // the precision at which it is served now.
  // `name` and errors as Registry::Get's; FailedPrecondition for what is
  // unloaded or on its way there.
  absl::StatusOr<ModelHandle> Enter(absl::string_view name);

  // Both return the version; handles of theirs are no use. Load waits, and may
  // read the weights: not on a device's thread or an RPC's. Without a precision
  // it is loaded at PrecisionOf; at another, both are on devices until the new
  // one is ready.
  absl::StatusOr<ModelHandle> Load(absl::string_view name,
                                   std::optional<Precision> precision = {});
  absl::StatusOr<ModelHandle> Unload(absl::string_view name);
  // The version is deleted.
  void Forget(const ModelVersion& version);

  VersionState StateOf(const ModelVersion& version) const;
  // At which new requests run.
  Precision PrecisionOf(const ModelVersion& version) const;
  // OK only if a request that came now would not fail on account of the
  // version: it takes requests, its files are there, the weights are what was
  // stored (read once, the first time), some device could hold it. May read the
  // weights, as Load.
  absl::Status CheckReady(absl::string_view name) const;

 private:
  class States;
  class Use;

  const Registry& registry_;
  const std::shared_ptr<States> states_;  // shared with the uses
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_STATES_H_
