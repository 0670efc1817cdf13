// SPDX-License-Identifier: Apache-2.0
// Certificates, made when a test wants them.
#pragma once

#include <chrono>
#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace troupe::test {

enum class KeyKind { kEllipticCurve, kSmallRsa };

struct CertificateOptions {
  std::chrono::hours begins{-24}, ends{24 * 30};  // from now
  KeyKind key = KeyKind::kEllipticCurve;
  std::string servers = "DNS:localhost,IP:127.0.0.1";
};

class TestCertificate {
 public:
  // issuer: null: it vouches for itself. Throws std::runtime_error if OpenSSL can't.
  explicit TestCertificate(const std::string& name, const CertificateOptions& options = {},
                           const TestCertificate* issuer = nullptr);

  std::string pem() const;  // of the certificate
  std::string key_pem() const;
  std::string locked_key_pem() const;  // with a passphrase

 private:
  std::shared_ptr<evp_pkey_st> key_;
  std::shared_ptr<x509_st> certificate_;
};

}  // namespace troupe::test
