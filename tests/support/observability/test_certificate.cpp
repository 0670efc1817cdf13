// SPDX-License-Identifier: Apache-2.0
#include "tests/support/observability/test_certificate.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace troupe::test {
namespace {

constexpr long kDay = 24 * 60 * 60;

template <class Type, void (*kFree)(Type*)>
struct Deleter {
  void operator()(Type* object) const { kFree(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509, X509_free>>;

void add_extension(X509* certificate, int name, const std::string& value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, name, value.c_str());
  if (!extension) throw std::runtime_error("no such extension of a certificate: " + value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate make_certificate(EVP_PKEY* key, const std::string& name, int valid_days) {
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), (valid_days - 1) * kDay - 1);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  const std::string title = "troupe tests";
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(title.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  add_extension(certificate.get(), NID_subject_alt_name, name);
  if (X509_sign(certificate.get(), key, EVP_sha256()) == 0)
    throw std::runtime_error("the certificate can't be signed");
  return certificate;
}

}  // namespace

TestCertificate::TestCertificate(const std::string& name, int valid_days) {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
  const Certificate certificate = make_certificate(key.get(), name, valid_days);
  std::FILE* file = std::fopen(certificate_path().c_str(), "w");
  PEM_write_X509(file, certificate.get());
  std::fclose(file);
  file = std::fopen(key_path().c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

}  // namespace troupe::test
