// What a token may be good for, and what each method of the wire asks for.
#ifndef RECURVE_SERVER_ACCESS_SCOPES_H_
#define RECURVE_SERVER_ACCESS_SCOPES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve::server {

enum class Scope {
  kOpen,     // everybody: health, reflection
  kRead,     // names, descriptions, figures, weights
  kPredict,  // predictions, sessions, generation, evaluation
  kTrain,    // new models, datasets, trainers and jobs, and their ends
  kAdmin,    // what other clients are served: deleting, loading, aliases
};

// "read", "predict", "train", "admin", "open".
absl::string_view ScopeName(Scope scope);

// A set of scopes; kOpen is in all of them.
class Scopes {
 public:
  // Such as "read,predict". InvalidArgument names what is no scope.
  static absl::StatusOr<Scopes> Parse(absl::string_view text);

  bool Has(Scope scope) const;
  std::string ToString() const;  // as Parse takes it

 private:
  unsigned bits_ = 1u << static_cast<unsigned>(Scope::kOpen);
};

// The scope that a method such as "/recurve.v1.Inference/Predict" asks for;
// none for a method that the table lacks, which nobody may call.
std::optional<Scope> ScopeOf(absl::string_view method);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_SCOPES_H_
