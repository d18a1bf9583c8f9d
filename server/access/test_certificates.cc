#include "server/access/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <atomic>

namespace recurve::server {
namespace {

constexpr int kDays = 36500;

std::string Written(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, size);
  BIO_free(bio);
  return text;
}

std::string Pem(X509* certificate) {
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return Written(bio);
}

std::string Pem(EVP_PKEY* key) {
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return Written(bio);
}

void AddExtension(X509* certificate, X509* issuer, int id, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension =
      X509V3_EXT_conf_nid(nullptr, &context, id, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// A certificate of `key`, not signed yet.
X509* Blank(const std::string& name, EVP_PKEY* key) {
  static std::atomic<long> serial = 1;
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
  X509_time_adj_ex(X509_getm_notAfter(certificate), kDays, 0, nullptr);
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

}  // namespace

TestCertificate MakeAuthority(const std::string& name) {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = Blank(name, key);
  X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
  AddExtension(certificate, certificate, NID_basic_constraints,
               "critical,CA:TRUE");
  X509_sign(certificate, key, EVP_sha256());
  const TestCertificate made = {Pem(certificate), Pem(key)};
  X509_free(certificate);
  EVP_PKEY_free(key);
  return made;
}

TestCertificate MakeCertificate(const std::string& name,
                                const TestCertificate& authority) {
  BIO* const issuer_text = BIO_new_mem_buf(authority.certificate.data(), -1);
  X509* const issuer =
      PEM_read_bio_X509(issuer_text, nullptr, nullptr, nullptr);
  BIO_free(issuer_text);
  BIO* const key_text = BIO_new_mem_buf(authority.key.data(), -1);
  EVP_PKEY* const issuer_key =
      PEM_read_bio_PrivateKey(key_text, nullptr, nullptr, nullptr);
  BIO_free(key_text);
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = Blank(name, key);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  const std::string names = "DNS:" + name + ",DNS:localhost,IP:127.0.0.1";
  AddExtension(certificate, issuer, NID_subject_alt_name, names.c_str());
  X509_sign(certificate, issuer_key, EVP_sha256());
  const TestCertificate made = {Pem(certificate), Pem(key)};
  X509_free(certificate);
  X509_free(issuer);
  EVP_PKEY_free(key);
  EVP_PKEY_free(issuer_key);
  return made;
}

}  // namespace recurve::server
