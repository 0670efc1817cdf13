// SPDX-License-Identifier: Apache-2.0
// A certificate and its key in files that go with it. It is signed by itself: a client that
// trusts its file trusts it.
#pragma once

#include <string>

#include "tests/support/temporary_directory.hpp"
#include "tests/support/tls/test_certificate.hpp"

namespace troupe::test {

class CertificateFiles {
 public:
  // servers: "IP:127.0.0.1" or "DNS:localhost".
  explicit CertificateFiles(const std::string& servers, std::chrono::hours ends = std::chrono::hours(24)) {
    CertificateOptions options{.ends = ends};
    options.servers = servers;
    const TestCertificate certificate("troupe tests", options);
    place_.write("certificate.pem", certificate.pem());
    place_.write("key.pem", certificate.key_pem());
  }

  // PEM
  std::string certificate_path() const { return (place_.path() / "certificate.pem").string(); }
  std::string key_path() const { return (place_.path() / "key.pem").string(); }

 private:
  TemporaryDirectory place_;
};

}  // namespace troupe::test
