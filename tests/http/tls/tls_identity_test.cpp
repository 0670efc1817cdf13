// SPDX-License-Identifier: Apache-2.0
#include "http/tls/tls_identity.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/http/tls/test_identity.hpp"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string refusal(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  try {
    const TlsIdentity identity(certificate, key);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("TLS identity: a file that can't be used is named, with the reason") {
  const TestCertificate good("good"), other("other"), small("small", {.key = KeyKind::kSmallRsa});
  const TemporaryDirectory place;
  const auto certificate = place.write("certificate.pem", good.pem());
  const auto key = place.write("key.pem", good.key_pem());
  const auto missing = place.path() / "missing.pem";
  const auto text = place.write("text.pem", "no PEM\n");
  const auto broken = place.write("broken.pem", good.pem().replace(100, 4, "****"));
  const auto broken_chain = place.write("chain.pem", good.pem() + other.pem().replace(100, 4, "****"));
  const auto fifo = place.path() / "fifo.pem";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto large = place.write("large.pem", std::string((1 << 20) + 1, '\n'));
  struct Row {
    std::filesystem::path certificate, key;
    std::string file, reason;
  };
  const std::vector<Row> rows = {
      {missing, key, "missing.pem", "No such file"},
      {certificate, missing, "missing.pem", "No such file"},
      {place.path(), key, place.path().string(), "Is a directory"},
      {certificate, place.path(), place.path().string(), "Is a directory"},
      {fifo, key, "fifo.pem", "expected a regular file"},
      {certificate, fifo, "fifo.pem", "expected a regular file"},
      {text, key, "text.pem", "expected a certificate in PEM"},
      {certificate, text, "text.pem", "expected a private key in PEM"},
      {key, key, "key.pem", "expected a certificate in PEM"},
      {certificate, certificate, "certificate.pem", "expected a private key in PEM"},
      {broken, key, "broken.pem", "expected a certificate in PEM"},
      {broken_chain, key, "chain.pem", "behind the first is broken"},
      {large, key, "large.pem", "more than 1 MiB"},
      {certificate, place.write("locked.pem", good.locked_key_pem()), "locked.pem", "without a passphrase"},
      {certificate, place.write("other.pem", other.key_pem()), "other.pem",
       "not the key of the certificate in " + certificate.string()},
      {certificate, place.write("rsa.pem", small.key_pem()), "rsa.pem", "not the key of the certificate"},
      {place.write("small.pem", small.pem()), place.write("small-key.pem", small.key_pem()), "small.pem",
       "key too small"},
  };
  for (const auto& row : rows) {
    const std::string text_of_refusal = refusal(row.certificate, row.key);
    CAPTURE(text_of_refusal);
    CHECK(has(text_of_refusal, row.file + ": "));
    CHECK(has(text_of_refusal, row.reason));
  }
  CHECK(refusal(certificate, key).empty());
}

TEST_CASE("TLS identity: one file may hold certificate and key") {
  const TestCertificate certificate("both");
  const TemporaryFile file(certificate.pem() + certificate.key_pem());
  CHECK(refusal(file.path(), file.path()).empty());
}

TEST_CASE("TLS identity: the certificate's dates are told, and follow a renewal") {
  using std::chrono::hours;
  const auto is_about = [](TlsIdentity::TimePoint time, hours from_now) {
    const auto distance = time - (std::chrono::system_clock::now() + from_now);
    return std::chrono::abs(distance) < hours(1);
  };
  const TestIdentity files(TestCertificate("past", {.begins = hours(-48), .ends = hours(-24)}));
  CHECK(is_about((*files)->not_before(), hours(-48)));
  CHECK(is_about((*files)->not_after(), hours(-24)));
  files.write(TestCertificate("future", {.begins = hours(24), .ends = hours(48)}));
  (*files)->reload();
  CHECK(is_about((*files)->not_before(), hours(24)));
  CHECK(is_about((*files)->not_after(), hours(48)));
}

TEST_CASE("TLS identity: a renewal that can't be read changes nothing") {
  const TestCertificate first("first", {.ends = std::chrono::hours(24)}), second("second");
  const TestIdentity files(first);
  const auto not_after = (*files)->not_after();
  const TemporaryDirectory place;
  std::filesystem::copy_file(place.write("half", second.pem()), files.certificate_file(),
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_WITH_AS((*files)->reload(), doctest::Contains("key.pem: this is not the key"),
                       std::runtime_error);
  CHECK((*files)->not_after() == not_after);
}
