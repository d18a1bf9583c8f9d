#include "client/cli/print_version.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace recurve::cli {
namespace {

// Nothing for what every version is unless told otherwise.
const char* StateOf(const v1::ModelVersion& version) {
  switch (version.state()) {
    case v1::ModelVersion::LOADED:
      return ", loaded";
    case v1::ModelVersion::DRAINING:
      return ", draining";
    case v1::ModelVersion::UNLOADED:
      return ", unloaded";
    default:
      return "";
  }
}

// Nothing for float32, likewise.
const char* PrecisionOf(const v1::ModelVersion& version) {
  switch (version.precision()) {
    case v1::BFLOAT16:
      return ", bf16";
    case v1::INT8:
      return ", int8";
    default:
      return "";
  }
}

}  // namespace

void PrintVersion(const Session& session, const v1::ModelVersion& version) {
  if (session.json) return PrintJson(ToJson(version));
  const std::string sessions =
      version.sessions() == 0 ? ""
                              : absl::StrCat(", sessions ", version.sessions());
  absl::PrintF("%s  %d parameters, state %d, %s%s%s%s, sha256 %s\n",
               version.name(), version.parameter_count(), version.state_size(),
               version.source(), StateOf(version), PrecisionOf(version),
               sessions, version.sha256());
}

}  // namespace recurve::cli
