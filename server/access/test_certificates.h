// Certificates for tests, made on the spot; they expire in a hundred years.
#ifndef RECURVE_SERVER_ACCESS_TEST_CERTIFICATES_H_
#define RECURVE_SERVER_ACCESS_TEST_CERTIFICATES_H_

#include <string>

namespace recurve::server {

struct TestCertificate {
  std::string certificate;  // PEM
  std::string key;
};

// One that signs itself and others.
TestCertificate MakeAuthority(const std::string& name);
// For the client or server `name`, also on 127.0.0.1 and localhost.
TestCertificate MakeCertificate(const std::string& name,
                                const TestCertificate& authority);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_TEST_CERTIFICATES_H_
