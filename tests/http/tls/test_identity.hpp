// SPDX-License-Identifier: Apache-2.0
// A server's certificate and key in files of their own, which a test may change.
#pragma once

#include <memory>
#include <string>

#include "http/tls/tls_identity.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/tls/test_certificate.hpp"

namespace troupe::test {

class TestIdentity {
 public:
  explicit TestIdentity(const TestCertificate& certificate) {
    write(certificate);
    identity_ = std::make_shared<TlsIdentity>(certificate_file(), key_file());
  }

  void write(const TestCertificate& certificate) const {
    place_.write("certificate.pem", certificate.pem());
    place_.write("key.pem", certificate.key_pem());
  }
  std::filesystem::path certificate_file() const { return place_.path() / "certificate.pem"; }
  std::filesystem::path key_file() const { return place_.path() / "key.pem"; }
  const std::shared_ptr<TlsIdentity>& operator*() const { return identity_; }

 private:
  TemporaryDirectory place_;
  std::shared_ptr<TlsIdentity> identity_;
};

}  // namespace troupe::test
