// make_certificates FOLDER: writes ca.pem, and server.pem and client.pem of it
// with server.key and client.key.
#include <fstream>
#include <string>

#include "server/access/test_certificates.h"

int main(int argc, char** argv) {
  using recurve::server::TestCertificate;
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
  };
  const TestCertificate authority = recurve::server::MakeAuthority("authority");
  write("ca.pem", authority.certificate);
  for (const std::string name : {"server", "client"}) {
    const TestCertificate made =
        recurve::server::MakeCertificate(name, authority);
    write(name + ".pem", made.certificate);
    write(name + ".key", made.key);
  }
}
