// What the gate says of a call.
#ifndef RECURVE_SERVER_ACCESS_ADMISSION_H_
#define RECURVE_SERVER_ACCESS_ADMISSION_H_

#include <string>

#include "absl/status/status.h"

namespace recurve::server {

struct Admission {
  absl::Status status;  // OK, or why nothing may be done for the call
  // Whose it is: "token:NAME", "certificate:NAME" or an address. Limits, and
  // the shares that clients have of a device, are by client.
  std::string client;
  bool counted = false;  // against its limit
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_ADMISSION_H_
