// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tls/test_certificate.hpp"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <stdexcept>

namespace troupe::test {
namespace {

void require(bool is_done, const char* what) {
  if (!is_done) throw std::runtime_error(std::string("OpenSSL: ") + what);
}

void add_extension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  require(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, value);
  X509_EXTENSION_free(extension);
}

void set_time(ASN1_TIME* time, std::chrono::hours from_now) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(from_now).count();
  require(X509_time_adj_ex(time, 0, static_cast<long>(seconds), nullptr) != nullptr, "time");
}

template <typename Write>
std::string pem_of(Write write) {
  const std::shared_ptr<BIO> bytes(BIO_new(BIO_s_mem()), BIO_free);
  require(write(bytes.get()) == 1, "PEM");
  char* text = nullptr;
  const long size = BIO_get_mem_data(bytes.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace

TestCertificate::TestCertificate(const std::string& name, const CertificateOptions& options,
                                 const TestCertificate* issuer)
    : key_(options.key == KeyKind::kSmallRsa ? EVP_RSA_gen(1024) : EVP_EC_gen("P-256"), EVP_PKEY_free),
      certificate_(X509_new(), X509_free) {
  require(key_ && certificate_, "no memory");
  static long serial = 0;
  X509* const own = certificate_.get();
  X509* const above = issuer != nullptr ? issuer->certificate_.get() : own;
  X509_set_version(own, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(own), ++serial);
  set_time(X509_getm_notBefore(own), options.begins);
  set_time(X509_getm_notAfter(own), options.ends);
  X509_set_pubkey(own, key_.get());
  const auto* text = reinterpret_cast<const unsigned char*>(name.c_str());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(own), "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(own, X509_get_subject_name(above));
  add_extension(own, above, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(own, above, NID_subject_alt_name, options.servers.c_str());
  EVP_PKEY* const signer = issuer != nullptr ? issuer->key_.get() : key_.get();
  require(X509_sign(own, signer, EVP_sha256()) > 0, "signature");
}

std::string TestCertificate::pem() const {
  return pem_of([this](BIO* bytes) { return PEM_write_bio_X509(bytes, certificate_.get()); });
}

std::string TestCertificate::key_pem() const {
  return pem_of([this](BIO* bytes) {
    return PEM_write_bio_PrivateKey(bytes, key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string TestCertificate::locked_key_pem() const {
  return pem_of([this](BIO* bytes) {
    const auto* passphrase = reinterpret_cast<const unsigned char*>("secret");
    return PEM_write_bio_PrivateKey(bytes, key_.get(), EVP_aes_128_cbc(), passphrase, 6, nullptr, nullptr);
  });
}

}  // namespace troupe::test
