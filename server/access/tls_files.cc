#include "server/access/tls_files.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/file.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

constexpr int64_t kMaxFileBytes = 16 << 20;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// OpenSSL would ask the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

Owned<BIO> Open(const std::string& pem) {
  return Owned<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// The first of the file; null if there is none.
Owned<X509> CertificateOf(const std::string& pem) {
  return Owned<X509>(
      PEM_read_bio_X509(Open(pem).get(), nullptr, NoPassphrase, nullptr));
}
Owned<EVP_PKEY> KeyOf(const std::string& pem) {
  return Owned<EVP_PKEY>(
      PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, NoPassphrase, nullptr));
}

absl::Status Bad(absl::string_view flag, const std::string& path,
                 absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": ", path, " ", what));
}

absl::StatusOr<std::string> Read(absl::string_view flag,
                                 const std::string& path) {
  auto text = ReadFile(path, kMaxFileBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": ", text.status().message()));
}

absl::Status Check(const TlsPaths& paths, const TlsMaterial& tls) {
  const auto certificate = CertificateOf(tls.certificate);
  if (certificate == nullptr) {
    return Bad("tls_certificate", paths.certificate,
               "has no PEM certificate in it");
  }
  const auto key = KeyOf(tls.key);
  if (key == nullptr) {
    return Bad("tls_key", paths.key,
               "has no PEM private key in it that needs no passphrase");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Bad("tls_key", paths.key,
               absl::StrCat("is not the key of the certificate in ",
                            paths.certificate));
  }
  if (!paths.client_ca.empty() && CertificateOf(tls.client_ca) == nullptr) {
    return Bad("tls_client_ca", paths.client_ca,
               "has no PEM certificate in it");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsPaths& paths) {
  TlsMaterial tls;
  ASSIGN_OR_RETURN(tls.certificate, Read("tls_certificate", paths.certificate));
  ASSIGN_OR_RETURN(tls.key, Read("tls_key", paths.key));
  if (!paths.client_ca.empty()) {
    ASSIGN_OR_RETURN(tls.client_ca, Read("tls_client_ca", paths.client_ca));
  }
  RETURN_IF_ERROR(Check(paths, tls));
  return tls;
}

}  // namespace recurve::server
