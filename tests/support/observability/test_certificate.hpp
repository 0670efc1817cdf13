// SPDX-License-Identifier: Apache-2.0
// A certificate and its key for servers in tests, made anew each time, in files
// that go with it. It is signed by itself: a client that trusts its file trusts it.
#pragma once

#include <string>

#include "tests/support/temporary_directory.hpp"

namespace troupe::test {

class TestCertificate {
 public:
  // name: of the server, "IP:127.0.0.1" or "DNS:localhost". valid_days: from
  // yesterday on; 0: it has expired.
  explicit TestCertificate(const std::string& name, int valid_days = 2);

  // PEM
  std::string certificate_path() const { return (directory_.path() / "certificate.pem").string(); }
  std::string key_path() const { return (directory_.path() / "key.pem").string(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace troupe::test
